import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { sha256OfFile } from '../../src/fetch/hash.ts'
import { parseArtifactName, parseRetentionDays, uploadArtifacts } from '../../src/github/artifact.ts'
import { serviceCache } from '../../src/github/cache.ts'
import type { RunCache } from '../../src/piece-cache.ts'
import { formatKey, type PieceKey } from '../../src/piece-cache.ts'
import { type Bench, makeBench } from '../harness.ts'
import { type KeptLog, keptLog } from '../log.ts'
import { type ResultsService, startResultsService } from '../results-service/results-service.ts'

let service: ResultsService
let bench: Bench
let log: KeptLog

beforeAll(async () => {
  service = await startResultsService()
})

afterAll(async () => await service.close())

beforeEach(async () => {
  bench = await makeBench()
  log = keptLog()
  const env = {
    ...service.env,
    RUNNER_TEMP: bench.temp,
    GITHUB_WORKSPACE: bench.dir,
    GITHUB_SERVER_URL: 'https://github.com',
    GITHUB_REPOSITORY: 'owner/name',
    GITHUB_RUN_ID: '77',
  }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  // The clients write runner commands, which a runner that runs these tests would carry out.
  vi.spyOn(process.stdout, 'write').mockReturnValue(true)
})

afterEach(async () => {
  service.setFaults(() => undefined)
  service.clearCalls()
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await bench.close()
})

let count = 0

const never = new AbortController().signal

/** A file with bytes of its own, and its key. */
async function makePiece(size = 100_000): Promise<{ key: PieceKey; path: string; bytes: Buffer }> {
  const bytes = randomBytes(size)
  const path = join(bench.dir, `piece-${++count}`)
  await writeFile(path, bytes)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return { key: { kind: 'file', name: `https://example.org/${count}`, facts: [sha256] }, path, bytes }
}

function checkOf({ facts: [sha256] }: PieceKey) {
  return async (path: string): Promise<string | undefined> =>
    (await sha256OfFile(path)) === sha256 ? undefined : 'its SHA-256 is another'
}

function open(limits?: Parameters<typeof serviceCache>[2]): RunCache {
  const cache = serviceCache(bench.temp, log, limits)
  if (cache === undefined) throw new Error('there should be a cache')
  return cache
}

async function saved(limits?: Parameters<typeof serviceCache>[2]) {
  const piece = await makePiece()
  const cache = open(limits)
  await cache.save(piece.key, piece.path, 'a note')
  await cache.close(never)
  return piece
}

describe('the cache of a runner', () => {
  it('brings back the bytes and the note of what an earlier run saved, and leaves nothing else behind', async () => {
    const { key, bytes } = await saved()
    const cache = open()
    const target = join(bench.dir, 'back')
    expect(await cache.restore(key, target, checkOf(key), never)).toEqual({ note: 'a note' })
    expect((await readFile(target)).equals(bytes)).toBe(true)
    await cache.close(never)
    expect(cache.lookups).toEqual([{ name: key.name, hit: true }])
    expect(log.notices).toEqual([])
    expect(existsSync(join(bench.temp, 'cks-iso-cache'))).toBe(false)
  })

  it('saves a piece whose file the build moves or removes at once', async () => {
    const { key, path } = await makePiece()
    const cache = open()
    await cache.save(key, path)
    await writeFile(`${path}.new`, 'other')
    await rename(`${path}.new`, path)
    await cache.close(never)
    expect(await open().restore(key, join(bench.dir, 'back'), checkOf(key), never)).toEqual({ note: '' })
  })

  it('misses what nobody saved, and what was saved with another fact', async () => {
    const { key } = await saved()
    const other = { ...key, facts: ['0'.repeat(64)] }
    const cache = open()
    expect(await cache.restore(other, join(bench.dir, 'back'), checkOf(other), never)).toBeUndefined()
    expect(cache.lookups).toEqual([{ name: key.name, hit: false }])
    expect(log.notices).toEqual([])
  })

  it('takes an entry with other bytes for a miss, says so, and puts nothing in place', async () => {
    const { key } = await saved()
    const target = join(bench.dir, 'back')
    expect(await open().restore(key, target, async () => 'its SHA-256 is another', never)).toBeUndefined()
    expect(existsSync(target)).toBe(false)
    expect(log.notices).toEqual([
      `The cached copy of ${key.name} cannot be used: its SHA-256 is another. Fetching it anew.`,
    ])
  })

  it.each([
    ['damaged', (bytes: Buffer) => bytes.fill(7, bytes.length >> 2, bytes.length >> 1)],
    ['cut off', (bytes: Buffer) => bytes.subarray(0, bytes.length >> 1)],
    ['empty', () => Buffer.alloc(0)],
  ])('takes an entry that is %s for a miss', async (_, alter) => {
    const { key } = await saved()
    await service.alterEntry(formatKey(key), alter)
    const target = join(bench.dir, 'back')
    expect(await open().restore(key, target, checkOf(key), never)).toBeUndefined()
    expect(existsSync(target)).toBe(false)
    expect(await readdir(join(bench.temp))).not.toContain('cks-iso-cache')
  })

  it('lets two runs save the same piece: the second is told no, and goes on', async () => {
    const { key, path } = await makePiece()
    for (const cache of [open(), open()]) {
      await cache.save(key, path)
      await cache.close(never)
    }
    expect(service.entries.filter(({ name }) => name === formatKey(key))).toHaveLength(1)
    expect(log.warnings).toEqual([])
  })

  it('stops saving where nothing may be saved', async () => {
    const denied = { ok: false, signed_upload_url: '', message: 'cache write denied: read-only token' }
    service.setFaults((method) =>
      method === 'CreateCacheEntry' ? { kind: 'answer', status: 200, body: denied } : undefined,
    )
    const cache = open()
    for (let piece = 0; piece < 8; piece++) {
      const { key, path } = await makePiece(100)
      await cache.save(key, path)
    }
    await cache.close(never)
    expect(service.calls.length).toBeLessThanOrEqual(4)
    expect(log.notices).toEqual([
      'The cache refused 3 pieces and took none: nothing more is saved in this run.',
    ])
  })

  it('takes a service that refuses to read for a miss', async () => {
    const { key } = await saved()
    service.setFaults(() => ({
      kind: 'answer',
      status: 403,
      body: { code: 'permission_denied', msg: 'cache read denied: no scopes' },
    }))
    expect(await open().restore(key, join(bench.dir, 'back'), checkOf(key), never)).toBeUndefined()
  })

  it('asks no more once the service has not answered in time', async () => {
    service.setFaults(() => ({ kind: 'stall' }))
    const { key } = await makePiece()
    const cache = open({ restore: 300 })
    const target = join(bench.dir, 'back')
    expect(await cache.restore(key, target, checkOf(key), never)).toBeUndefined()
    expect(await cache.restore(key, target, checkOf(key), never)).toBeUndefined()
    expect(service.calls).toHaveLength(1)
    expect(log.notices).toEqual([expect.stringContaining('going on without it')])
  })

  it('stops waiting when the build is cancelled', async () => {
    service.setFaults(() => ({ kind: 'stall' }))
    const { key, path } = await makePiece()
    const cache = open()
    const soon = () => AbortSignal.timeout(200)
    expect(await cache.restore(key, join(bench.dir, 'back'), checkOf(key), soon())).toBeUndefined()
    await cache.save(key, path)
    await cache.close(soon())
    expect(log.notices).toEqual([])
    expect(existsSync(join(bench.temp, 'cks-iso-cache'))).toBe(false)
  })

  it('asks no more once the service took long to say no', async () => {
    const { key } = await makePiece()
    const cache = open({ miss: -1 })
    for (let time = 0; time < 2; time++)
      await cache.restore(key, join(bench.dir, 'back'), checkOf(key), never)
    expect(service.calls).toHaveLength(1)
    expect(log.notices).toHaveLength(1)
  })

  it('does not wait for ever for saves that do not end', async () => {
    service.setFaults(() => ({ kind: 'stall' }))
    const { key, path } = await makePiece()
    const cache = open({ save: 300 })
    await cache.save(key, path)
    await cache.close(never)
    expect(log.notices).toEqual([expect.stringContaining('did not take everything')])
  })

  it('says so when it cannot take a file', async () => {
    const { key } = await makePiece()
    const cache = open()
    await cache.save(key, join(bench.dir, 'missing'))
    await cache.close(never)
    expect(log.notices).toEqual([expect.stringMatching(/cannot take .*ENOENT/)])
  })

  it('is absent where there is no cache service', () => {
    vi.stubEnv('ACTIONS_RESULTS_URL', '')
    expect(serviceCache(bench.temp, log)).toBeUndefined()
    expect(log.infos).toHaveLength(1)
  })
})

describe('the upload of artifacts', () => {
  const upload = async (name: string, path: string) =>
    await uploadArtifacts([{ path, name }], { log, tempDir: bench.temp })

  it('stores each file as it is under its own name', async () => {
    const [iso, versions] = [join(bench.out, 'a.iso'), join(bench.out, 'a.versions.txt')]
    // Larger than a chunk of the upload, which is 8 MiB.
    await writeFile(iso, randomBytes(20_000_000))
    await writeFile(versions, '# cks-iso versions 1\n')
    const uploaded = await uploadArtifacts(
      [
        { path: iso, name: 'a.iso' },
        { path: versions, name: 'a.versions.txt' },
      ],
      { log, tempDir: bench.temp, retentionDays: 3 },
    )
    expect(uploaded?.map(({ name, size }) => [name, size])).toEqual([
      ['a.iso', 20_000_000],
      ['a.versions.txt', 21],
    ])
    expect(uploaded?.[0]?.url).toBe(
      `https://github.com/owner/name/actions/runs/77/artifacts/${uploaded?.[0]?.id}`,
    )
    expect((await service.artifact('a.iso')).equals(await readFile(iso))).toBe(true)
    expect((await service.artifact('a.versions.txt')).equals(await readFile(versions))).toBe(true)
    expect(service.artifacts.find(({ name }) => name === 'a.iso')?.hash).toBe(
      `sha256:${await sha256OfFile(iso)}`,
    )
    expect(await readdir(bench.temp)).toEqual([])
  })

  it('gives the artifact another name than the file when asked to', async () => {
    const path = join(bench.out, 'b.iso')
    await writeFile(path, 'bytes')
    expect(await upload('other.iso', path)).toMatchObject([{ name: 'other.iso', size: 5 }])
  })

  it('names the artifact and the input when the name is taken', async () => {
    const path = join(bench.out, 'c.iso')
    await writeFile(path, 'bytes')
    await upload('c.iso', path)
    await expect(upload('c.iso', path)).rejects.toThrow(
      /artifact c\.iso: .*already exists.*\n.*artifact-name/,
    )
    expect(await readdir(bench.temp)).toEqual([])
  })

  it('says what to set when the storage is used up', async () => {
    const path = join(bench.out, 'd.iso')
    await writeFile(path, 'bytes')
    service.setFaults(() => ({
      kind: 'answer',
      status: 403,
      body: { code: 'resource_exhausted', msg: 'insufficient usage to create artifact' },
    }))
    await expect(upload('d.iso', path)).rejects.toThrow(/quota[\s\S]*retention-days/)
  })

  it('says what to set on a server without this service', async () => {
    vi.stubEnv('GITHUB_SERVER_URL', 'https://git.corp.example')
    const path = join(bench.out, 'e.iso')
    await writeFile(path, 'bytes')
    await expect(upload('e.iso', path)).rejects.toThrow(/GHES[\s\S]*set upload-artifact to false/)
  })

  it('is skipped with one line outside a runner', async () => {
    vi.stubEnv('ACTIONS_RUNTIME_TOKEN', '')
    expect(await upload('f.iso', join(bench.out, 'f.iso'))).toBeUndefined()
    expect(log.infos).toHaveLength(1)
    expect(service.calls).toEqual([])
  })

  it('reads its inputs', () => {
    expect(['', '0', ' 5 ', '400'].map(parseRetentionDays)).toEqual([undefined, undefined, 5, 400])
    for (const bad of ['-1', 'abc', '1.5', '401', '9999']) {
      expect(() => parseRetentionDays(bad)).toThrow(/retention-days/)
    }
    expect([' ', 'my-iso_1.2+x'].map(parseArtifactName)).toEqual([undefined, 'my-iso_1.2+x'])
    for (const bad of ['a:b', 'a/b', '.x', 'a\nb', 'x'.repeat(201)]) {
      expect(() => parseArtifactName(bad)).toThrow(/artifact-name/)
    }
  })
})
