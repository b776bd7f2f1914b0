import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { addCloudStackCommands } from '../../src/cloudstack/cli.ts'
import { Failure } from '../../src/errors.ts'
import { FAST, Lines } from '../cloudstack/rig.ts'
import { CloudStackStandIn, type StandInCluster } from '../cloudstack/stand-in.ts'

const ENTRY = fileURLToPath(new URL('../../src/entry/upgrade.ts', import.meta.url))

let cloud: CloudStackStandIn
let cluster: StandInCluster
let endpoint: string
let dir: string

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
  dir = await mkdtemp(join(tmpdir(), 'cks-iso-test-'))
  const old = cloud.addVersion('1.32.14')
  cloud.addVersion('1.33.13')
  cluster = cloud.addCluster('prod', old)
})
afterEach(async () => {
  await cloud.stop()
  await rm(dir, { recursive: true, force: true })
})

describe('the commands', () => {
  const env = () => ({
    CLOUDSTACK_ENDPOINT: endpoint,
    CLOUDSTACK_API_KEY: cloud.keys.apiKey,
    CLOUDSTACK_SECRET_KEY: cloud.keys.secretKey,
  })

  const run = async (args: readonly string[], environment: Readonly<Record<string, string>> = env()) => {
    const printed: string[] = []
    const program = new Command().exitOverride().configureOutput({ writeErr: () => {} })
    addCloudStackCommands(program, {
      log: new Lines(),
      signal: new AbortController().signal,
      cwd: dir,
      tempDir: dir,
      env: environment,
      timing: FAST,
      print: (text) => printed.push(text),
    })
    const failure = await program.parseAsync(['node', 'cks-iso', ...args]).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    return { printed: printed.join('\n'), failure }
  }

  it('register and upgrade take keys and endpoint from the environment, and print the summary', async () => {
    const registering = ['--kubernetes-version', '1.33.14', '--iso-url', 'https://isos.example/a.iso']
    const registered = await run(['register', ...registering, '--iso-checksum', 'ab'.repeat(32)])
    expect(registered.failure).toBeUndefined()
    expect(registered.printed).toContain('| all zones | v1.33.14-x86_64 |')
    const upgraded = await run(['upgrade', '--kubernetes-version', '1.33.14', '--clusters', 'prod'])
    expect(upgraded.failure).toBeUndefined()
    expect(upgraded.printed).toContain('| prod | 1.32.14 | 1.33.14 | upgraded |')
  })

  it('upgrade --dry-run changes nothing', async () => {
    const { printed } = await run([
      'upgrade',
      '--kubernetes-version',
      '1.33.13',
      '--clusters',
      'all',
      '--dry-run',
    ])
    expect(printed).toContain('would upgrade')
    expect(cloud.changes).toEqual([])
  })

  it('upgrade prints the summary and fails when a cluster was not upgraded', async () => {
    cloud.fault('upgradeKubernetesCluster', { kind: 'job fails', code: 530, text: 'no' })
    const { printed, failure } = await run([
      'upgrade',
      '--kubernetes-version',
      '1.33.13',
      '--clusters',
      'all',
    ])
    expect(printed).toContain('| failed |')
    expect(failure).toBeInstanceOf(Failure)
  })

  it('without keys say which variable is missing', async () => {
    const { failure } = await run(
      ['upgrade', '--endpoint', endpoint, '--kubernetes-version', '1.33.13', '--clusters', 'a'],
      {},
    )
    expect(String(failure)).toMatch(/api-key: empty[\s\S]*CLOUDSTACK_API_KEY[\s\S]*CLOUDSTACK_SECRET_KEY/)
  })

  it('have no option for a secret', async () => {
    expect(String((await run(['upgrade', '--secret-key', 'x'])).failure)).toContain(
      "unknown option '--secret-key'",
    )
  })
})

describe('the action', () => {
  let child: ChildProcess | undefined
  afterEach(() => void child?.kill('SIGKILL'))

  const start = async (inputs: Readonly<Record<string, string>>) => {
    const files = { output: join(dir, 'output'), summary: join(dir, 'summary') }
    for (const file of Object.values(files)) await writeFile(file, '')
    const all = { endpoint, 'api-key': cloud.keys.apiKey, 'secret-key': cloud.keys.secretKey, ...inputs }
    const started = spawn(process.execPath, [ENTRY], {
      cwd: dir,
      env: {
        PATH: process.env.PATH,
        GITHUB_OUTPUT: files.output,
        GITHUB_STEP_SUMMARY: files.summary,
        GITHUB_WORKSPACE: dir,
        RUNNER_TEMP: dir,
        ...Object.fromEntries(
          Object.entries(all).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value]),
        ),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child = started
    let log = ''
    for (const stream of [started.stdout, started.stderr])
      stream.on('data', (chunk) => (log += String(chunk)))
    const ended = new Promise<number | null>((resolve) => started.on('close', resolve))
    return {
      started,
      end: async () => ({
        code: await ended,
        log,
        output: await readFile(files.output, 'utf8'),
        summary: await readFile(files.summary, 'utf8'),
      }),
    }
  }

  it('writes outputs and summary, and masks both keys', async () => {
    const run = await start({ 'kubernetes-version': '1.33.13', clusters: 'prod' })
    const { code, log, output, summary } = await run.end()
    expect(code).toBe(0)
    expect(summary).toContain('| prod | 1.32.14 | 1.33.13 | upgraded | off | off |  |')
    expect(output).toContain('["prod"]')
    expect(output).toContain('"result":"upgraded"')
    const { apiKey, secretKey } = cloud.keys
    for (const key of [apiKey, secretKey]) {
      expect(log).toContain(`::add-mask::${key}\n`)
      expect(log.replace(`::add-mask::${key}\n`, '')).not.toContain(key)
    }
  })

  it('fails with what CloudStack says, and writes the summary all the same', async () => {
    cloud.fault('upgradeKubernetesCluster', { kind: 'job fails', code: 530, text: 'unable to drain a|b' })
    const { code, log, summary } = await (
      await start({ 'kubernetes-version': '1.33.13', clusters: 'prod' })
    ).end()
    expect(code).toBe(1)
    expect(log).toMatch(/::error::1 of 1 clusters were not upgraded: prod/)
    expect(summary).toContain('unable to drain a\\|b')
  })

  it('fails on a bad input without a stack trace', async () => {
    const { code, log } = await (await start({ 'kubernetes-version': 'x', clusters: 'prod' })).end()
    expect(code).toBe(1)
    expect(log).toContain('::error::kubernetes-version: "x" is no Kubernetes release')
    expect(log).not.toContain('    at ')
  })

  it('fails on a wrong secret key without showing it', async () => {
    const run = await start({
      'kubernetes-version': '1.33.13',
      clusters: 'prod',
      'secret-key': 'not-the-secret',
    })
    const { code, log, summary } = await run.end()
    expect(code).toBe(1)
    expect(log).toMatch(/::error::.*401/)
    expect(`${log.replace('::add-mask::not-the-secret', '')} ${summary}`).not.toContain('not-the-secret')
  })

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'on %s in mid-upgrade ends soon, says what goes on, and writes the summary',
    async (signal) => {
      cloud.jobTime = 60_000
      const run = await start({ 'kubernetes-version': '1.33.13', clusters: 'prod' })
      await expect.poll(() => cluster.state, { timeout: 20_000 }).toBe('Upgrading')
      const sent = Date.now()
      run.started.kill(signal)
      const { code, log, summary } = await run.end()
      expect(Date.now() - sent).toBeLessThan(5_000)
      expect(code).toBe(1)
      expect(log).toContain('::warning::cluster prod: cancelled: the upgrade goes on in CloudStack')
      expect(summary).toContain('| cancelled |')
    },
  )
})
