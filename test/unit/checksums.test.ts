import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { CHECKSUMS, checksumFile, checksumsOf } from '../../src/record/checksums.ts'

it('writes checksum files that the usual tools check', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'checksums-'))
  try {
    await writeFile(join(dir, 'a.iso'), 'x'.repeat(3_000_000))
    const checksums = await checksumsOf(join(dir, 'a.iso'), new AbortController().signal)
    for (const name of CHECKSUMS) {
      await writeFile(join(dir, name), checksumFile(checksums[name], 'a.iso'))
      const { stdout } = await promisify(execFile)(`${name}sum`, ['--check', name], { cwd: dir })
      expect(stdout).toBe('a.iso: OK\n')
    }
    await expect(checksumsOf(join(dir, 'a.iso'), AbortSignal.abort())).rejects.toThrow(/abort/)
  } finally {
    await rm(dir, { recursive: true })
  }
})
