import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { type Bench, makeBench } from '../harness.ts'
import { type ResultsService, startResultsService } from '../results-service/results-service.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const run = promisify(execFile)
const dist = join(import.meta.dirname, '../../dist')

let upstream: Upstream
let service: ResultsService
let bench: Bench

beforeAll(async () => {
  upstream = await startUpstream()
  service = await startResultsService()
  bench = await makeBench()
})

afterAll(async () => {
  await bench?.close()
  await service?.close()
  await upstream?.close()
})

afterEach(() => {
  service.setFaults(() => undefined)
  upstream.restore()
  upstream.clearRequests()
})

/** The variables of a runner, with inputs. */
function runnerEnv(
  inputs: Readonly<Record<string, string>>,
  more: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  const given = {
    'kubernetes-version': 'refs/tags/v1.33.13',
    'output-dir': 'out',
    mirrors: upstream.mirrors,
    ...inputs,
  }
  const variables = Object.entries(given).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value])
  return {
    ...process.env,
    ...service.env,
    ...Object.fromEntries(variables),
    GITHUB_OUTPUT: join(bench.dir, 'github-output'),
    GITHUB_STATE: join(bench.dir, 'github-state'),
    GITHUB_STEP_SUMMARY: join(bench.dir, 'github-summary'),
    GITHUB_WORKSPACE: bench.dir,
    RUNNER_ENVIRONMENT: 'github-hosted',
    RUNNER_TEMP: bench.temp,
    RUNNER_TOOL_CACHE: join(bench.dir, 'tools'),
    ...more,
  }
}

async function emptyFiles(): Promise<void> {
  for (const name of ['output', 'state', 'summary']) await writeFile(join(bench.dir, `github-${name}`), '')
}

/** What was written to one of the runner's files, by name. */
async function written(file: 'output' | 'state'): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(join(bench.dir, `github-${file}`), 'utf8')
  return new Map(
    [...text.matchAll(/^(\S+)<<(\S+)\n([\s\S]*?)\n\2$/gm)].map(([, name = '', , value = '']) => [
      name,
      value,
    ]),
  )
}

/** Runs the bundle as a runner does. */
async function runAction(
  inputs: Readonly<Record<string, string>>,
  more: Readonly<Record<string, string>> = {},
) {
  await emptyFiles()
  const ended = await run('node', [join(dist, 'index.js')], { env: runnerEnv(inputs, more) }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (thrown: { code: number; stdout: string }) => ({ code: thrown.code, stdout: thrown.stdout }),
  )
  const summary = await readFile(join(bench.dir, 'github-summary'), 'utf8')
  return { ...ended, outputs: await written('output'), summary }
}

/** The post step, with the state that the main step wrote. */
async function runPost(): Promise<string> {
  const state = [...(await written('state'))].map(([name, value]) => [`STATE_${name}`, value])
  const { stdout } = await run('node', [join(dist, 'post.js')], {
    env: { ...process.env, ...Object.fromEntries(state) },
  })
  return stdout
}

/** What was looked for in the cache and not found. */
function missed(outputs: ReadonlyMap<string, string>): readonly string[] {
  const lookups: { name: string; hit: boolean }[] = JSON.parse(outputs.get('cache-hits') ?? '[]')
  expect(lookups.length).toBeGreaterThan(20)
  return lookups.filter(({ hit }) => !hit).map(({ name }) => name)
}

const ISO = 'setup-v1.33.13-x86_64.iso'

it('uploads the ISO as it is, tells outputs and summary, and fetches nothing twice', async () => {
  const cold = await runAction({})
  expect(cold.stdout).not.toContain('::error')
  expect(cold.code).toBe(0)
  const iso = await readFile(cold.outputs.get('iso-path') ?? '')
  expect(await service.artifact(ISO)).toEqual(iso)
  expect(service.artifacts.map(({ name }) => name).toSorted()).toEqual([
    'setup-v1.33.13-x86_64.cdx.json',
    ISO,
    `${ISO}.md5`,
    `${ISO}.sha256`,
    `${ISO}.sha512`,
    'setup-v1.33.13-x86_64.versions.txt',
  ])
  expect(cold.outputs.get('artifact-id')).toMatch(/^\d+$/)
  expect(cold.summary).toContain('cluster-autoscaler')
  expect(cold.summary).toContain(cold.outputs.get('iso-sha256'))
  expect(cold.outputs.get('changed')).toBe('')
  expect(cold.stdout.match(/^::group::.*$/gm)).toEqual([
    '::group::Plan',
    '::group::Downloads and images',
    '::group::Write the ISO',
    '::group::Check the ISO',
  ])
  expect(await readdir(bench.temp)).toEqual([])
  expect(await runPost()).toBe('')

  upstream.clearRequests()
  const warm = await runAction({ 'artifact-name': 'second' })
  expect(warm.code).toBe(0)
  expect(warm.outputs.get('iso-sha256')).toBe(cold.outputs.get('iso-sha256'))
  expect(upstream.counts().blobs).toBe(0)
  expect(missed(warm.outputs)).toEqual([])
}, 240_000)

it('fails on an artifact name that is taken, names the input, and still hands out the ISO', async () => {
  const again = await runAction({})
  expect(again.code).toBe(1)
  expect(again.stdout).toMatch(/::error::.*setup-v1\.33\.13-x86_64\.iso.*artifact-name/s)
  expect(again.outputs.get('iso-path')).toBe(join(bench.out, ISO))
}, 120_000)

it('refuses a bad switch before any work', async () => {
  const bad = await runAction({ cache: 'maybe' })
  expect(bad.code).toBe(1)
  expect(bad.stdout).toContain('::error::cache: "maybe" is no place to keep things')
  const undecided = await runAction({ 'upload-artifact': 'perhaps' })
  expect(undecided.stdout).toContain('::error::upload-artifact: "perhaps" is neither true nor false')
  expect(upstream.requests).toEqual([])
})

it('fetches a damaged cache entry anew, and makes the same ISO', async () => {
  const damaged = service.entries.filter(({ name }) => /coredns|kubelet/.test(name))
  for (const { name } of damaged) await service.alterEntry(name, (bytes) => bytes.fill(7, 40, 400))
  const again = await runAction({ 'upload-artifact': 'false' })
  expect(again.code).toBe(0)
  // The client tells what it cannot unpack, and we what is not what it should be.
  expect(again.stdout).toMatch(/::notice::The cached copy of .* cannot be used|::warning::Failed to restore/)
  expect(missed(again.outputs).every((name) => /coredns|kubelet/.test(name))).toBe(true)
  expect(missed(again.outputs)).toHaveLength(damaged.length)
})

it('builds with a cache that refuses everything', async () => {
  service.setFaults((method) =>
    /Cache/.test(method)
      ? { kind: 'answer', status: 403, body: { code: 'permission_denied', msg: 'cache read denied' } }
      : undefined,
  )
  const refused = await runAction({ 'upload-artifact': 'false' })
  expect(refused.code).toBe(0)
  expect(refused.outputs.get('iso-sha256')).toMatch(/^\w{64}$/)
  expect(missed(refused.outputs).length).toBeGreaterThan(20)
})

it('keeps pieces on the disk of a self-hosted runner, compares with an earlier record, and repeats it', async () => {
  const selfHosted = { RUNNER_ENVIRONMENT: 'self-hosted' }
  const inputs = { 'upload-artifact': 'false', 'autoscaler-version': '1.33.4' }
  const previous = join(bench.dir, 'previous.txt')
  service.clearCalls()
  const first = await runAction({ ...inputs, previous }, selfHosted)
  expect(first.code).toBe(0)
  expect(first.stdout).toContain('::warning::previous: there is nothing at')
  expect(first.outputs.get('changed')).toBe('true')
  expect(first.summary).toContain('this counts as the first build')

  await copyFile(first.outputs.get('versions-path') ?? '', previous)
  upstream.clearRequests()
  const second = await runAction({ ...inputs, previous }, selfHosted)
  expect(missed(second.outputs)).toEqual([])
  expect(upstream.counts().blobs).toBe(0)
  expect(second.outputs.get('changed')).toBe('false')
  expect(second.summary).toContain('Nothing changed.')

  const newer = await runAction({ ...inputs, 'autoscaler-version': '1.33.6', previous }, selfHosted)
  expect(newer.outputs.get('changed')).toBe('true')
  expect(newer.summary).toMatch(/\| moved \| version autoscaler 1\.33\.4 -&#62; 1\.33\.6 \|/)

  const locked = await runAction(
    { 'upload-artifact': 'false', lock: previous, 'kubernetes-version': '' },
    selfHosted,
  )
  expect(locked.outputs.get('iso-sha256')).toBe(first.outputs.get('iso-sha256'))
  expect(service.calls).toEqual([])
})

it('refuses a previous or lock that is no record, before it builds', async () => {
  const path = join(bench.dir, 'page.txt')
  await writeFile(path, '<html>Not Found</html>')
  for (const input of ['previous', 'lock']) {
    const { code, stdout } = await runAction({ [input]: path })
    expect(code, input).toBe(1)
    expect(stdout, input).toMatch(
      new RegExp(`::error::${input}: .*page\\.txt is no versions\\.txt.*versions\\.txt of a build`),
    )
  }
  expect(upstream.counts().blobs).toBe(0)
})

it('has a post step that clears away what a killed main step left', async () => {
  upstream.registry.setFaults(({ kind }) => (kind === 'blob' ? { kind: 'stall' } : undefined))
  await emptyFiles()
  const env = runnerEnv({ cache: 'false', 'build-name': 'killed' }, {})
  const main = spawn('node', [join(dist, 'index.js')], { env, stdio: 'ignore' })
  const runId = await vi.waitFor(
    async () => {
      expect(upstream.registry.requests.some(({ kind }) => kind === 'blob')).toBe(true)
      return (await written('state')).get('run-id') ?? ''
    },
    { timeout: 60_000, interval: 50 },
  )
  main.kill('SIGKILL')
  await once(main, 'exit')
  expect(await marked(runId)).not.toBe('')
  expect(await readdir(bench.temp)).not.toEqual([])

  expect(await runPost()).toBe('')
  expect(await marked(runId)).toBe('')
  expect(await readdir(bench.temp)).toEqual([])
  expect((await readdir(bench.out)).filter((name) => /killed|\.cks-iso/.test(name))).toEqual([])
  upstream.registry.setFaults(() => undefined)
})

it('has a post step that is content when the main step did not begin', async () => {
  await emptyFiles()
  expect(await runPost()).toContain('did not begin')
})

/** The processes that a run has started, by the mark in their environment. */
async function marked(runId: string): Promise<string> {
  return await run('grep', ['-lsa', `CKS_ISO_RUN=${runId}`, ...(await environs())]).then(
    ({ stdout }) => stdout,
    (thrown: { stdout: string }) => thrown.stdout,
  )
}

async function environs(): Promise<readonly string[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map((pid) => `/proc/${pid}/environ`)
}

it('lets hostile input change no command, output or summary', async () => {
  const hostile = '"; id #\n::set-output name=iso-path::/evil\n$(touch pwned)<script>alert(1)</script>'
  for (const input of [
    'build-name',
    'ccm-version',
    'network',
    'output-dir',
    'artifact-name',
    'lock',
    'previous',
    'verify',
  ]) {
    const { code, stdout, outputs, summary } = await runAction({ [input]: hostile })
    expect(code, input).toBe(1)
    expect(stdout, input).not.toMatch(/^::set-output/m)
    expect([...outputs.keys()], input).toEqual([])
    expect(summary, input).toBe('')
  }
  expect(await readdir(bench.dir)).not.toContain('pwned')
})
