import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { getBooleanInput, getInput, info, setFailed, setOutput, summary } from '@actions/core'
import { type BuildResult, build } from '../build.ts'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import {
  parseArtifactName,
  parseRetentionDays,
  type UploadedArtifact,
  uploadArtifacts,
} from '../github/artifact.ts'
import { type CacheLookup, runnerCache } from '../github/cache.ts'
import { runnerLog } from '../github/log.ts'
import { buildSummary } from '../github/summary.ts'
import type { Log } from '../log.ts'
import { parseEpoch } from '../request/epoch.ts'
import { parseRequest } from '../request/request.ts'
import { BUILD_SETTINGS, type OutputName } from '../request/settings.ts'
import { cancelSignal } from '../signals.ts'
import { sizeOf } from '../words.ts'

const { env } = process

/** The clients of the Actions toolkit leave directories in RUNNER_TEMP, so they get one that is gone afterwards. */
async function main(): Promise<void> {
  const tempDir = resolve(env.RUNNER_TEMP || tmpdir())
  const scratch = await mkdtemp(join(tempDir, 'cks-iso-toolkit-'))
  env.RUNNER_TEMP = scratch
  try {
    await run(tempDir)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** The main action: inputs in, an ISO and its record out. */
async function run(tempDir: string): Promise<void> {
  const cancel = cancelSignal()
  const request = parseRequest(Object.fromEntries(BUILD_SETTINGS.map(({ name }) => [name, getInput(name)])), {
    cwd: env.GITHUB_WORKSPACE ?? process.cwd(),
    ...(env.GITHUB_REF_TYPE === 'tag' && env.GITHUB_REF !== undefined ? { tag: env.GITHUB_REF } : {}),
  })
  const upload = {
    isWanted: switchInput('upload-artifact'),
    name: parseArtifactName(getInput('artifact-name')),
    retentionDays: parseRetentionDays(getInput('retention-days')),
  }
  const warnings: string[] = []
  const log = keepingWarnings(runnerLog(), warnings)
  const cache = switchInput('cache') ? runnerCache(tempDir, log) : undefined
  const kept = cache === undefined ? {} : { cache }
  let result: BuildResult
  try {
    result = await build(request, { log, cancel, tempDir, ...kept, ...parseEpoch(env.SOURCE_DATE_EPOCH) })
  } finally {
    await cache?.close(cancel)
  }
  info(`${result.isoPath}: ${sizeOf(result.isoSize)}, sha256 ${result.isoSha256}`)
  // Before the upload, so that a later step has the ISO though the upload fails.
  setOutputs(outputsOf(result, cache?.lookups ?? []))
  await writeSummary(buildSummary({ result, stages: result.stages, lookups: cache?.lookups, warnings }), log)
  if (!upload.isWanted) return
  const { retentionDays } = upload
  const files = artifactsOf(result, upload.name)
  const uploaded = await uploadArtifacts(files, {
    log,
    tempDir,
    ...(retentionDays === undefined ? {} : { retentionDays }),
  })
  setOutputs(artifactOutputs(uploaded?.find(({ name }) => name.endsWith('.iso'))))
}

/** The files to upload, each with the name of its artifact, which a download gets as well. */
function artifactsOf(
  { plan, isoPath, versionsPath, checksumPaths }: BuildResult,
  name: string = plan.name,
): readonly { readonly path: string; readonly name: string }[] {
  return [isoPath, versionsPath, ...checksumPaths].map((path) => ({
    path,
    name: `${name}${basename(path).slice(plan.name.length)}`,
  }))
}

function outputsOf(
  result: BuildResult,
  lookups: readonly CacheLookup[],
): Readonly<Record<OutputName, unknown>> {
  const { versions } = result.plan
  return {
    'iso-path': result.isoPath,
    'iso-name': basename(result.isoPath),
    'iso-size': result.isoSize,
    'iso-sha256': result.isoSha256,
    'versions-path': result.versionsPath,
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

/** @throws Failure for anything but YAML's true and false */
function switchInput(name: 'cache' | 'upload-artifact'): boolean {
  if (getInput(name) === '') return true
  try {
    return getBooleanInput(name)
  } catch (thrown) {
    throw new Failure(
      `${name}: ${JSON.stringify(getInput(name))} is neither true nor false`,
      `Set ${name} to true or false.`,
      {
        cause: thrown,
      },
    )
  }
}

try {
  await main()
} catch (thrown) {
  const isExpected = thrown instanceof Failure || thrown instanceof Cancelled
  setFailed(isExpected ? thrown.message : `Unexpected: ${reasonOf(thrown)}`)
}
// Connections that are kept alive must not keep the job waiting.
process.exit()
