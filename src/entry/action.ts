import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { getInput, info, setFailed, setOutput, summary } from '@actions/core'
import { type BuildResult, build } from '../build.ts'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import {
  parseArtifactName,
  parseRetentionDays,
  type UploadedArtifact,
  uploadArtifacts,
} from '../github/artifact.ts'
import { cacheDir, serviceCache } from '../github/cache.ts'
import { type CacheChoice, parseCacheChoice } from '../github/cache-choice.ts'
import { runnerLog } from '../github/log.ts'
import { type Comparison, compare, readPrevious } from '../github/previous.ts'
import { remember } from '../github/state.ts'
import { buildSummary } from '../github/summary.ts'
import type { Log } from '../log.ts'
import { machineCache } from '../machine-cache.ts'
import type { CacheLookup, RunCache } from '../piece-cache.ts'
import { stagingDir } from '../publish.ts'
import { parseEpoch } from '../request/epoch.ts'
import { readRequest } from '../request/read.ts'
import { ACTION_SETTINGS, BUILD_SETTINGS, type OutputName } from '../request/settings.ts'
import { parseSwitch } from '../request/switch.ts'
import { cancelSignal } from '../signals.ts'
import { sizeOf } from '../words.ts'

const { env } = process

/** The directories of one run. */
interface Places {
  /** The runner's own temporary directory, the same in every run. */
  readonly tempDir: string
  /** Of this run alone, and gone afterwards: the clients of the Actions toolkit leave directories in RUNNER_TEMP, too. */
  readonly scratch: string
}

async function main(): Promise<void> {
  const tempDir = resolve(env.RUNNER_TEMP || tmpdir())
  const scratch = await mkdtemp(join(tempDir, 'cks-iso-'))
  env.RUNNER_TEMP = scratch
  try {
    await run({ tempDir, scratch })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** The main action: inputs in, an ISO and its record out. */
async function run({ tempDir, scratch }: Places): Promise<void> {
  const runId = randomUUID()
  remember('run-id', runId)
  remember('scratch-dir', scratch)
  remember('cache-dir', cacheDir(tempDir))
  const cancel = cancelSignal()
  const warnings: string[] = []
  const log = keepingWarnings(runnerLog(), warnings)
  const upload = {
    isWanted: parseSwitch(settingOf('upload-artifact'), 'upload-artifact'),
    name: parseArtifactName(settingOf('artifact-name')),
    retentionDays: parseRetentionDays(settingOf('retention-days')),
  }
  const choice = parseCacheChoice(settingOf('cache'), env.RUNNER_ENVIRONMENT)
  const values = Object.fromEntries(BUILD_SETTINGS.map(({ name }) => [name, getInput(name)]))
  const reading = { cwd: env.GITHUB_WORKSPACE ?? process.cwd(), tempDir: scratch, log, signal: cancel }
  const request = await readRequest(values, {
    ...reading,
    ...(env.GITHUB_REF_TYPE === 'tag' && env.GITHUB_REF !== undefined ? { tag: env.GITHUB_REF } : {}),
  })
  remember('staging-dir', stagingDir(request.outputDir, runId))
  const previous = await readPrevious(settingOf('previous'), { ...reading, mirrors: request.mirrors })
  const cache = openCache(choice, { tempDir, scratch }, log)
  const kept = cache === undefined ? {} : { cache }
  let result: BuildResult
  try {
    const environment = {
      log,
      cancel,
      tempDir: scratch,
      runId,
      ...kept,
      ...parseEpoch(env.SOURCE_DATE_EPOCH),
    }
    result = await build(request, environment)
  } finally {
    await cache?.close(cancel)
  }
  info(`${result.isoPath}: ${sizeOf(result.isoSize)}, sha256 ${result.isoSha256}`)
  const comparison = compare(previous, result.record)
  // Before the upload, so that a later step has the ISO though the upload fails.
  setOutputs(outputsOf(result, comparison, cache?.lookups ?? []))
  const { stages } = result
  await writeSummary(buildSummary({ result, comparison, stages, lookups: cache?.lookups, warnings }), log)
  if (!upload.isWanted) return
  const { retentionDays } = upload
  const files = artifactsOf(result, upload.name)
  const uploaded = await uploadArtifacts(files, {
    log,
    tempDir: scratch,
    ...(retentionDays === undefined ? {} : { retentionDays }),
  })
  setOutputs(artifactOutputs(uploaded?.find(({ name }) => name.endsWith('.iso'))))
}

function openCache(choice: CacheChoice, { tempDir, scratch }: Places, log: Log): RunCache | undefined {
  if (choice === 'none') return undefined
  return choice === 'service' ? serviceCache(tempDir, log) : machineCache(scratch, log)
}

/** The files to upload, each with the name of its artifact, which a download gets as well. */
function artifactsOf(
  { plan, isoPath, versionsPath, sbomPath, checksumPaths }: BuildResult,
  name: string = plan.name,
): readonly { readonly path: string; readonly name: string }[] {
  return [isoPath, versionsPath, sbomPath, ...checksumPaths].map((path) => ({
    path,
    name: `${name}${basename(path).slice(plan.name.length)}`,
  }))
}

function outputsOf(
  result: BuildResult,
  comparison: Comparison | undefined,
  lookups: readonly CacheLookup[],
): Readonly<Record<OutputName, unknown>> {
  const { versions } = result.plan
  return {
    'iso-path': result.isoPath,
    'iso-name': basename(result.isoPath),
    'iso-size': result.isoSize,
    'iso-sha256': result.isoSha256,
    'versions-path': result.versionsPath,
    'sbom-path': result.sbomPath,
    changed: comparison?.isChanged ?? '',
    'kubernetes-version': versions.kubernetes,
    'autoscaler-version': versions.autoscaler,
    'ccm-version': versions.ccm,
    'csi-version': versions.csi,
    'cni-version': versions['cni-plugins'],
    'crictl-version': versions.crictl,
    'etcd-version': versions.etcd ?? '',
    network: versions.network,
    dashboard: versions.dashboard,
    ...artifactOutputs(undefined),
    'cache-hits': lookups,
    images: result.images.map(({ reference, digest, fileName, size }) => ({
      reference,
      digest,
      file: `docker/${fileName}`,
      size,
    })),
  }
}

function artifactOutputs(
  iso: UploadedArtifact | undefined,
): Readonly<Record<'artifact-id' | 'artifact-url', string>> {
  return { 'artifact-id': iso === undefined ? '' : String(iso.id), 'artifact-url': iso?.url ?? '' }
}

function setOutputs(outputs: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(outputs)) setOutput(name, value)
}

async function writeSummary(text: string, log: Log): Promise<void> {
  if (!env.GITHUB_STEP_SUMMARY) return
  try {
    await summary.addRaw(text, true).write()
  } catch (thrown) {
    log.warning(`The job summary cannot be written: ${reasonOf(thrown)}`)
  }
}

function keepingWarnings(log: Log, warnings: string[]): Log {
  return {
    ...log,
    warning: (message, place) => {
      warnings.push(message)
      log.warning(message, place)
    },
  }
}

/** An input as it was set; an empty one as its default says. */
function settingOf(name: (typeof ACTION_SETTINGS)[number]['name']): string {
  return getInput(name) || (ACTION_SETTINGS.find((setting) => setting.name === name)?.default ?? '')
}

try {
  await main()
} catch (thrown) {
  const isExpected = thrown instanceof Failure || thrown instanceof Cancelled
  setFailed(isExpected ? thrown.message : `Unexpected: ${reasonOf(thrown)}`)
}
// Connections that are kept alive must not keep the job waiting.
process.exit()
