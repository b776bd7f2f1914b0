import { readFile } from 'node:fs/promises'
import { Cancelled, Failure, fileFailure } from '../errors.ts'
import type { Log } from '../log.ts'
import { CloudStack } from './client.ts'
import { allClusters, allVersions, zonesCalled } from './inventory.ts'
import { autoscalerManifest } from './manifest.ts'
import type { SupportedVersion, Zone } from './model.ts'
import { chosen, planUpgrades } from './plan.ts'
import type { RedeployMethod } from './redeploy.ts'
import { type Registered, register } from './register.ts'
import type { CloudStackRequest, UpgradeRequest } from './request.ts'
import { summaryOf } from './summary.ts'
import { TIMING, type Timing } from './timing.ts'
import { type ClusterReport, dryRun, upgradeAll } from './upgrade.ts'
import { sentenceOf } from './words.ts'

export interface CloudStackContext {
  readonly log: Log
  /** Fires when the user cancels. */
  readonly signal: AbortSignal
  /** What relative paths are relative to. */
  readonly cwd: string
  /** For a manifest on its way; nothing stays there. */
  readonly tempDir: string
  readonly timing?: Timing
}

/** All that a run came to, also when it failed. */
export interface CloudStackReport {
  readonly registered: readonly Registered[]
  readonly clusters: readonly ClusterReport[]
  /** Markdown. */
  readonly summary: string
  /** Why the run is no success: to be thrown once the summary is written. */
  readonly failure: Failure | Cancelled | undefined
}

/**
 * Registers an ISO and upgrades clusters to it, as far as each was asked for.
 * @throws nothing but bugs: what went wrong is in the report, beside what went well
 */
export async function runCloudStack(
  request: CloudStackRequest,
  context: CloudStackContext,
): Promise<CloudStackReport> {
  let registered: readonly Registered[] = []
  let clusters: readonly ClusterReport[] = []
  let failure: Failure | Cancelled | undefined
  try {
    const api = await connected(request, context)
    const method = await methodOf(request.upgrade, context)
    const zones = await zonesCalled(api, request.zones)
    if (request.register !== undefined) {
      registered = await register(api, request.register, zones, { dryRun: request.dryRun, log: context.log })
    }
    if (request.upgrade !== undefined) {
      clusters = await upgraded(api, request, request.upgrade, method, zones, registered, context.log)
    }
    failure = failureOf(clusters)
    if (context.signal.aborted) throw new Cancelled('cancelled; what was begun goes on in CloudStack')
  } catch (thrown) {
    if (!(thrown instanceof Failure) && !(thrown instanceof Cancelled)) throw thrown
    failure = thrown
  }
  const failures = failure === undefined ? [] : [sentenceOf(failure)]
  return { registered, clusters, summary: summaryOf(registered, clusters, failures), failure }
}

async function connected(request: CloudStackRequest, context: CloudStackContext): Promise<CloudStack> {
  const { endpoint, keys, caFile } = request
  if (new URL(endpoint).protocol === 'http:') {
    context.log.warning(
      `endpoint: ${endpoint} is not encrypted: what CloudStack answers can be read on the way`,
    )
  }
  const ca = caFile === undefined ? {} : { ca: await certificates(caFile) }
  const { log, signal, timing = TIMING } = context
  return new CloudStack({ endpoint, keys, log, signal, timing, ...ca })
}

async function certificates(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((thrown: unknown) => {
    throw new Failure(sentenceOf(fileFailure('ca-file: cannot read it', path, thrown)), 'Look at ca-file.')
  })
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text
  throw new Failure(
    `ca-file: ${path} holds no certificate in PEM form`,
    'Set ca-file to a PEM file of the CA.',
  )
}

async function methodOf(
  upgrade: UpgradeRequest | undefined,
  context: CloudStackContext,
): Promise<RedeployMethod> {
  if (upgrade === undefined) return { kind: 'none' }
  const { redeploy } = upgrade
  if (redeploy.kind !== 'kubeconfig') return redeploy
  return { kind: 'kubeconfig', manifest: await autoscalerManifest(redeploy.source, context) }
}

async function upgraded(
  api: CloudStack,
  request: CloudStackRequest,
  upgrade: UpgradeRequest,
  redeploy: RedeployMethod,
  zones: readonly Zone[],
  registered: readonly Registered[],
  log: Log,
): Promise<readonly ClusterReport[]> {
  const { semver, versionName, register: registration } = request
  const { choice } = upgrade
  const clusters = chosen(await allClusters(api), choice, zones)
  if (clusters.length === 0) log.notice('clusters: there is no cluster to upgrade')
  // What a dry run would have registered counts as registered.
  const foreseen = registered
    .filter(({ id }) => id === undefined)
    .map(
      ({ name, zone }): SupportedVersion => ({
        id: 'not registered yet',
        name,
        semver,
        zoneId: zone?.id,
        isoId: undefined,
        isoState: 'Ready',
        enabled: true,
        arch: registration?.arch,
      }),
    )
  const versions = [...(await allVersions(api)), ...foreseen]
  const planned = planUpgrades(clusters, versions, { semver, name: versionName }, choice)
  if (request.dryRun) return dryRun(planned, semver, redeploy)
  return await upgradeAll(api, planned, semver, { ...upgrade, redeploy, log })
}

function failureOf(clusters: readonly ClusterReport[]): Failure | undefined {
  const failed = clusters.filter(({ result }) => result === 'failed')
  if (failed.length === 0) return undefined
  return new Failure(
    `${failed.length} of ${clusters.length} clusters were not upgraded: ${failed.map(({ cluster, note }) => `${cluster} (${note})`).join(', ')}`,
    'Look at these clusters in CloudStack, and run again: clusters that are there already are left alone.',
  )
}
