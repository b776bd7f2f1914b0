import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { findOnPath } from '../../src/exec.ts'
import { openIso } from '../../src/iso/reader.ts'
import { findIsoWriter, writeIso } from '../../src/iso/writer.ts'
import { withWorkspace } from '../../src/workspace.ts'
import { keptLog } from '../log.ts'

afterEach(() => vi.unstubAllEnvs())

it('writes an ISO again when the writer crashed, and says so', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'crash-'))
  try {
    await withWorkspace(dir, new AbortController().signal, async ({ programs }) => {
      const log = keptLog()
      const writer = await findIsoWriter(programs, log)
      const real = await findOnPath(writer.program)
      const bin = join(dir, 'bin')
      await mkdir(bin)
      const crash = `[ -e ${dir}/crashed ] || { touch ${dir}/crashed; echo 'UNIX-SIGNAL:  SIGSEGV  errno= 0' >&2; exit 1; }`
      await writeFile(join(bin, writer.program), `#!/bin/sh\n${crash}\nexec ${real} "$@"\n`)
      await chmod(join(bin, writer.program), 0o755)
      vi.stubEnv('PATH', `${bin}:${process.env.PATH}`)
      const tree = join(dir, 'tree')
      await mkdir(tree)
      await writeFile(join(tree, 'a'), 'x')
      const output = join(dir, 'a.iso')
      await writeIso({ writer, tree, output, epoch: 1_700_000_000, programs, log })
      const iso = await openIso(output)
      expect(iso.entries.map(({ path }) => path)).toContain('a')
      await iso.close()
      expect(log.notices.join()).toContain('crashed while it wrote')
    })
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
