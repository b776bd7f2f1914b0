import { tmpdir } from 'node:os'
import { getInput, setFailed, setOutput, setSecret, summary } from '@actions/core'
import { parseCloudStackRequest } from '../cloudstack/request.ts'
import { type CloudStackReport, runCloudStack } from '../cloudstack/run.ts'
import { type CloudStackSettingName, cloudStackSettings } from '../cloudstack/settings.ts'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import { runnerLog } from '../github/log.ts'
import { cancelSignal } from '../signals.ts'

/** The action upgrade: inputs in; outputs and a summary out, also when it fails. */
async function run(): Promise<void> {
  const signal = cancelSignal()
  const { env } = process
  const cwd = env.GITHUB_WORKSPACE ?? process.cwd()
  const request = parseCloudStackRequest(inputs(), 'action', { cwd })
  const report = await runCloudStack(request, {
    log: runnerLog(),
    signal,
    cwd,
    tempDir: env.RUNNER_TEMP ?? tmpdir(),
  })
  setOutputs(report)
  if (env.GITHUB_STEP_SUMMARY) await summary.addRaw(report.summary, true).write()
  if (report.failure !== undefined) throw report.failure
}

function inputs(): Partial<Record<CloudStackSettingName, string>> {
  const values: Partial<Record<CloudStackSettingName, string>> = {}
  for (const { name, secret } of cloudStackSettings()) {
    const value = getInput(name)
    if (secret && value !== '') setSecret(value)
    values[name] = value
  }
  return values
}

function setOutputs({ registered, clusters }: CloudStackReport): void {
  setOutput(
    'versions',
    registered.map(({ zone, name, id, outcome }) => ({
      zone: zone?.name ?? null,
      name,
      id: id ?? null,
      outcome,
    })),
  )
  setOutput('clusters', clusters)
  setOutput(
    'upgraded',
    clusters.filter(({ result }) => result === 'upgraded').map(({ cluster }) => cluster),
  )
}

try {
  await run()
} catch (thrown) {
  const expected = thrown instanceof Failure || thrown instanceof Cancelled
  setFailed(expected ? thrown.message : `Unexpected: ${reasonOf(thrown)}`)
}
// Connections that are kept alive must not keep the job waiting.
process.exit()
