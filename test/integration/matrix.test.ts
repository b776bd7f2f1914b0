import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { parseMatrixRequest } from '../../src/matrix/request.ts'
import { findJobs } from '../../src/matrix/run.ts'
import type { MatrixSettingName } from '../../src/matrix/settings.ts'
import { type Bench, makeBench } from '../harness.ts'
import { keptLog } from '../log.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

let upstream: Upstream
let bench: Bench

beforeAll(async () => {
  upstream = await startUpstream()
  bench = await makeBench()
})

afterAll(async () => {
  await bench?.close()
  await upstream?.close()
})

afterEach(() => upstream.restore())

async function find(values: Partial<Record<MatrixSettingName, string>>) {
  return await findJobs(parseMatrixRequest({ ...values, mirrors: upstream.mirrors }), {
    log: keptLog(),
    cancel: new AbortController().signal,
    tempDir: bench.temp,
    pauses: [1],
  })
}

describe('the matrix', () => {
  it('follows the newest minors to their newest patches', async () => {
    const { include, skipped } = await find({})
    expect(include.map((job) => job['kubernetes-version'])).toEqual(['1.36.1', '1.35.2', '1.34.2'])
    expect(skipped).toEqual([])
    expect(await readdir(bench.temp)).toEqual([])
  })

  it('lists a range newest first, and skips what has no release or no autoscaler', async () => {
    upstream.put('https://dl.k8s.io/release/stable-1.38.txt', 'v1.38.2\n')
    const { include, skipped } = await find({ minors: '1.36-1.38', arch: 'amd64,arm64' })
    expect(include.map((job) => [job['kubernetes-version'], job.arch])).toEqual([
      ['1.36.1', 'amd64'],
      ['1.36.1', 'arm64'],
    ])
    expect(skipped.map(({ reason }) => reason)).toEqual([
      'no cluster-autoscaler for 1.38 yet',
      'no cluster-autoscaler for 1.38 yet',
      'Kubernetes 1.37 has no release',
      'Kubernetes 1.37 has no release',
    ])
  })

  it('takes an exact version as it is, and asks no server for it', async () => {
    upstream.fault('https://dl.k8s.io/release/stable-1.33.txt', { kind: 'answer', status: 503 })
    const { include } = await find({ minors: 'v1.33.9, 1.36' })
    expect(include.map((job) => job['kubernetes-version'])).toEqual(['1.36.1', '1.33.9'])
  })

  it('builds the newest pre-release of a minor without a release, when asked to', async () => {
    const { include } = await find({ newest: '2', 'include-prereleases': 'true' })
    expect(include).toEqual([
      { 'kubernetes-version': '1.37.0-rc.1', arch: 'amd64', 'autoscaler-version': '1.36.1' },
      { 'kubernetes-version': '1.36.1', arch: 'amd64', 'autoscaler-version': '' },
    ])
  })

  it('skips what a repository has tags of, in a real git listing', async () => {
    const { include, skipped } = await find({
      minors: '1.36',
      released: 'https://github.com/kubernetes/kubernetes',
    })
    expect(include).toEqual([])
    expect(skipped.map(({ reason }) => reason)).toEqual(['already released: v1.36.1'])
  })

  it('fails naming the URL when the version file holds something else', async () => {
    upstream.put('https://dl.k8s.io/release/stable-1.36.txt', '<Error><Code>AccessDenied</Code></Error>')
    await expect(find({ minors: '1.36' })).rejects.toThrow(/stable-1\.36\.txt should name a version/)
    upstream.put('https://dl.k8s.io/release/stable-1.36.txt', 'v1.35.1')
    await expect(find({ minors: '1.36' })).rejects.toThrow(/stable-1\.36\.txt should name a version/)
  })

  it('fails when the server keeps failing, and does not take that for a minor without a release', async () => {
    upstream.fault('https://dl.k8s.io/release/stable-1.36.txt', { kind: 'answer', status: 503 })
    await expect(find({ minors: '1.36' })).rejects.toThrow(/503/)
  })

  it('fails naming the repository and the input when its tags cannot be listed', async () => {
    await expect(find({ minors: '1.36', released: 'https://github.com/nobody/nothing' })).rejects.toThrow(
      /nobody\/nothing[\s\S]*released/,
    )
  })
})

describe('the action matrix, run as a runner runs it', () => {
  const runAction = async (inputs: Partial<Record<MatrixSettingName, string>>) => {
    const [output, summary] = [join(bench.dir, 'output'), join(bench.dir, 'summary')]
    await Promise.all([writeFile(output, ''), writeFile(summary, '')])
    const env = Object.fromEntries(
      Object.entries({ ...inputs, mirrors: upstream.mirrors }).map(([name, value]) => [
        `INPUT_${name.toUpperCase()}`,
        value,
      ]),
    )
    const ended = await run(process.execPath, [join(root, 'src/entry/matrix.ts')], {
      env: {
        PATH: process.env.PATH,
        GITHUB_OUTPUT: output,
        GITHUB_STEP_SUMMARY: summary,
        RUNNER_TEMP: bench.temp,
        ...env,
      },
      timeout: 50_000,
    }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      (thrown: { code: number; stdout: string }) => ({ code: thrown.code, stdout: thrown.stdout }),
    )
    const written = await readFile(output, 'utf8')
    const outputs = Object.fromEntries(
      [...written.matchAll(/^(\S+)<<(\S+)\n([\s\S]*?)\n\2$/gm)].map(([, name, , value]) => [name, value]),
    )
    return { ...ended, outputs, summary: await readFile(summary, 'utf8') }
  }

  it('hands out the matrix as JSON, and tells the summary', async () => {
    const { code, outputs, summary } = await runAction({ minors: '1.35-1.36', released: 'v1.35.2' })
    expect(code).toBe(0)
    expect(JSON.parse(outputs.matrix ?? '')).toEqual({
      include: [{ 'kubernetes-version': '1.36.1', arch: 'amd64', 'autoscaler-version': '' }],
    })
    expect(outputs.empty).toBe('false')
    expect(JSON.parse(outputs.skipped ?? '')).toHaveLength(1)
    expect(summary).toContain('already released: v1.35.2')
  })

  it('says empty when nothing is new', async () => {
    const { outputs } = await runAction({ minors: '1.36', released: 'v1.36.1' })
    expect(outputs).toMatchObject({ matrix: '{"include":[]}', empty: 'true' })
  })

  it('is not fooled by hostile names: no output is forged, no command runs', async () => {
    const hostile = 'v1.36.1 $(touch pwned) `id`\n::set-output name=empty::x\nempty<<EOF'
    const { code, outputs, stdout } = await runAction({ minors: '1.35', released: hostile })
    expect(code).toBe(0)
    expect(Object.keys(outputs)).toEqual(['matrix', 'empty', 'skipped'])
    expect(outputs.empty).toBe('false')
    expect(stdout).not.toMatch(/^::set-output/m)
  })

  it('fails with one error that names the input', async () => {
    const { code, stdout } = await runAction({ minors: '1.x' })
    expect(code).toBe(1)
    expect(stdout).toMatch(/^::error::minors: "1.x"/m)
  })
})
