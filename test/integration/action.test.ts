import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Bench, makeBench } from '../harness.ts'
import { type ResultsService, startResultsService } from '../results-service/results-service.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const run = promisify(execFile)
const bundle = join(import.meta.dirname, '../../dist/index.js')

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

/** Runs the bundle as a runner does. */
async function runAction(inputs: Readonly<Record<string, string>>) {
  const output = join(bench.dir, 'github-output')
  const summary = join(bench.dir, 'github-summary')
  await Promise.all([writeFile(output, ''), writeFile(summary, '')])
  const given = {
    'kubernetes-version': 'refs/tags/v1.33.13',
    'output-dir': 'out',
    mirrors: upstream.mirrors,
    ...inputs,
  }
  const variables = Object.entries(given).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value])
  const ended = await run('node', [bundle], {
    env: {
      ...process.env,
      ...service.env,
      ...Object.fromEntries(variables),
      GITHUB_OUTPUT: output,
      GITHUB_STEP_SUMMARY: summary,
      GITHUB_WORKSPACE: bench.dir,
      RUNNER_TEMP: bench.temp,
      RUNNER_TOOL_CACHE: join(bench.dir, 'tools'),
    },
  }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (thrown: { code: number; stdout: string }) => ({ code: thrown.code, stdout: thrown.stdout }),
  )
  const outputs = new Map(
    [...(await readFile(output, 'utf8')).matchAll(/^(\S+)<<(\S+)\n([\s\S]*?)\n\2$/gm)].map((match) => [
      match[1],
      match[3],
    ]),
  )
  return { ...ended, outputs, summary: await readFile(summary, 'utf8') }
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
  expect(await readdir(bench.temp)).toEqual([])

  upstream.clearRequests()
  const warm = await runAction({ 'artifact-name': 'second' })
  expect(warm.code).toBe(0)
  expect(warm.outputs.get('iso-sha256')).toBe(cold.outputs.get('iso-sha256'))
  expect(upstream.counts().blobs).toBe(0)
  const lookups: { hit: boolean }[] = JSON.parse(warm.outputs.get('cache-hits') ?? '[]')
  expect(lookups.length).toBeGreaterThan(20)
  expect(lookups.every(({ hit }) => hit)).toBe(true)
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
  expect(bad.stdout).toContain('::error::cache: "maybe" is neither true nor false')
})

it('lets hostile input change no command, output or summary', async () => {
  const hostile = '"; id #\n::set-output name=iso-path::/evil\n$(touch pwned)<script>alert(1)</script>'
  for (const input of ['build-name', 'ccm-version', 'network', 'output-dir', 'artifact-name']) {
    const { code, stdout, outputs, summary } = await runAction({ [input]: hostile })
    expect(code, input).toBe(1)
    expect(stdout, input).not.toMatch(/^::set-output/m)
    expect([...outputs.keys()], input).toEqual([])
    expect(summary, input).toBe('')
  }
  expect(await readdir(bench.dir)).not.toContain('pwned')
})
