import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type BuildResult, build } from '../../src/build.ts'
import { serviceCache } from '../../src/github/cache.ts'
import type { RunCache } from '../../src/piece-cache.ts'
import { parseRequest } from '../../src/request/request.ts'
import { type Bench, makeBench } from '../harness.ts'
import { type KeptLog, keptLog } from '../log.ts'
import { type ResultsService, startResultsService } from '../results-service/results-service.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

let upstream: Upstream
let service: ResultsService
let bench: Bench

/** The first run, whose pieces the others find. */
let cold: CachedBuild
let coldDownloads: number

/** What one of the tests damages: nobody can write it anew, so it stays so. */
const DAMAGED = /kubectl|kube-proxy/

/** Several builds run in some of these tests. */
const TIMEOUT = 240_000

beforeAll(async () => {
  upstream = await startUpstream()
  service = await startResultsService()
  bench = await makeBench()
  setEnvironment()
  cold = await buildWithCache()
  coldDownloads = downloads().length
  resetEnvironment()
}, TIMEOUT)

afterAll(async () => {
  await bench?.close()
  await service?.close()
  await upstream?.close()
})

const never = new AbortController().signal

function setEnvironment(): void {
  const env = { ...service.env, RUNNER_TEMP: bench.temp, GITHUB_WORKSPACE: bench.dir }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  // The clients write runner commands, which a runner that runs these tests would carry out.
  vi.spyOn(process.stdout, 'write').mockReturnValue(true)
}

function resetEnvironment(): void {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
}

interface CachedBuild extends BuildResult {
  readonly log: KeptLog
  readonly cache: RunCache
}

async function buildWithCache(values: Readonly<Record<string, string>> = {}): Promise<CachedBuild> {
  const log = keptLog()
  const cache = serviceCache(bench.temp, log)
  if (cache === undefined) throw new Error('there should be a cache')
  const request = parseRequest(
    {
      'kubernetes-version': '1.33',
      mirrors: upstream.mirrors,
      'output-dir': bench.out,
      network: 'flannel',
      dashboard: 'none',
      ...values,
    },
    { cwd: bench.dir },
  )
  const options = { log, cancel: never, tempDir: bench.temp, pauses: [10, 20, 30], cache }
  try {
    return { ...(await build(request, options)), log, cache }
  } finally {
    await cache.close(never)
  }
}

/** Files of the upstream that are more than metadata. */
function downloads(): readonly string[] {
  return upstream.requests.map(({ url }) => url).filter((url) => /\/kube(adm|let|ctl)$|gz$/.test(url))
}

function blobs(): number {
  return upstream.registry.requests.filter(({ kind, method }) => kind === 'blob' && method === 'GET').length
}

describe('a build after another one', () => {
  beforeEach(() => {
    setEnvironment()
    upstream.clearRequests()
    service.clearCalls()
  })

  afterEach(() => {
    service.setFaults(() => undefined)
    upstream.restore()
    resetEnvironment()
  })

  it(
    'downloads and pulls nothing but metadata, and makes the same ISO',
    async () => {
      const warm = await buildWithCache()
      expect(coldDownloads).toBeGreaterThanOrEqual(5)
      expect(downloads()).toEqual([])
      expect(blobs()).toBe(0)
      expect(cold.cache.lookups.some(({ hit }) => hit)).toBe(false)
      expect(warm.cache.lookups.map(({ name }) => name).toSorted()).toEqual(
        cold.cache.lookups.map(({ name }) => name).toSorted(),
      )
      expect(warm.cache.lookups.filter(({ hit }) => !hit)).toEqual([])
      expect(service.calls).not.toContain('CreateCacheEntry')
      expect(warm.record).toEqual(cold.record)
      expect(warm.isoSha256).toBe(cold.isoSha256)
      expect(existsSync(join(bench.temp, 'cks-iso-cache'))).toBe(false)
    },
    TIMEOUT,
  )

  it(
    'of another minor finds the images that both have',
    async () => {
      const { cache } = await buildWithCache({ 'kubernetes-version': '1.34' })
      const hitsOf = (part: RegExp) =>
        cache.lookups.filter(({ name }) => part.test(name)).map(({ hit }) => hit)
      expect(new Set(hitsOf(/flannel/))).toEqual(new Set([true]))
      expect(new Set(hitsOf(/kube-apiserver|\/kubelet$/))).toEqual(new Set([false]))
    },
    TIMEOUT,
  )

  it(
    'for the other architecture takes no archive or program of the first',
    async () => {
      const { images, cache } = await buildWithCache({ arch: 'arm64' })
      const names = new Set(images.map(({ reference }) => reference))
      expect(cache.lookups.filter(({ name, hit }) => hit && names.has(name))).toEqual([])
    },
    TIMEOUT,
  )

  it(
    'fetches anew what is damaged in the cache, and is as good as ever',
    async () => {
      const damaged = service.entries.filter(({ name }) => DAMAGED.test(name))
      expect(damaged.length).toBeGreaterThanOrEqual(2)
      for (const { name } of damaged) await service.alterEntry(name, (bytes) => bytes.fill(7, 40, 400))
      const again = await buildWithCache()
      expect(again.record).toEqual(cold.record)
      const missed = again.cache.lookups.filter(({ hit }) => !hit).map(({ name }) => name)
      expect(missed.every((name) => DAMAGED.test(name))).toBe(true)
      expect(missed.length).toBeGreaterThanOrEqual(2)
      expect(await readdir(bench.temp)).not.toContain('cks-iso-cache')
    },
    TIMEOUT,
  )

  it(
    'succeeds with a cache that refuses everything',
    async () => {
      service.setFaults(() => ({
        kind: 'answer',
        status: 403,
        body: { code: 'permission_denied', msg: 'cache read denied: no scopes' },
      }))
      const { cache, isoSize } = await buildWithCache()
      expect(isoSize).toBeGreaterThan(0)
      expect(cache.lookups.some(({ hit }) => hit)).toBe(false)
    },
    TIMEOUT,
  )

  it(
    'pulls a tag anew once it has moved',
    async () => {
      const moved = cold.images.find(({ reference }) => /coredns/.test(reference))?.reference ?? ''
      const { digest } = await upstream.registry.push(moved, { mark: 'moved' })
      const again = await buildWithCache()
      const missed = again.cache.lookups.filter(({ name, hit }) => !hit && !DAMAGED.test(name))
      expect(missed.map(({ name }) => name)).toEqual([moved])
      expect(again.images.find(({ reference }) => reference === moved)?.digest).toBe(digest)
    },
    TIMEOUT,
  )
})
