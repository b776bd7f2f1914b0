import { tmpdir } from 'node:os'
import { getInput, info, setFailed, setOutput, summary } from '@actions/core'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import { runnerLog } from '../github/log.ts'
import { matrixSummary } from '../github/matrix-summary.ts'
import { parseMatrixRequest } from '../matrix/request.ts'
import { findJobs } from '../matrix/run.ts'
import { MATRIX_SETTINGS, type MatrixOutputName } from '../matrix/settings.ts'
import { cancelSignal } from '../signals.ts'

/** The action matrix: inputs in, a job matrix out. */
async function run(): Promise<void> {
  const cancel = cancelSignal()
  const { env } = process
  const request = parseMatrixRequest(
    Object.fromEntries(MATRIX_SETTINGS.map(({ name }) => [name, getInput(name)])),
  )
  const log = runnerLog()
  const matrix = await findJobs(request, { log, cancel, tempDir: env.RUNNER_TEMP ?? tmpdir() })
  const { include, skipped } = matrix
  for (const job of include) info(`${job['kubernetes-version']} for ${job.arch}: to build`)
  for (const { version, arch, reason } of skipped) log.info(`${version} for ${arch}: skipped, ${reason}`)
  const outputs: Readonly<Record<MatrixOutputName, unknown>> = {
    matrix: { include },
    empty: include.length === 0,
    skipped,
  }
  for (const [name, value] of Object.entries(outputs)) setOutput(name, value)
  if (env.GITHUB_STEP_SUMMARY) await summary.addRaw(matrixSummary(matrix), true).write()
}

try {
  await run()
} catch (thrown) {
  if (thrown instanceof Cancelled) setFailed('Cancelled; nothing is left behind.')
  else setFailed(thrown instanceof Failure ? thrown.message : `Unexpected: ${reasonOf(thrown)}`)
}
// Connections that are kept alive must not keep the job waiting.
process.exit()
