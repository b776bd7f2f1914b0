import pMap from 'p-map'
import { Cancelled, Failure } from '../errors.ts'
import type { Log } from '../log.ts'
import { type CloudStack, NoAnswer } from './client.ts'
import { lookedUp } from './inventory.ts'
import type { Cluster, SupportedVersion } from './model.ts'
import type { Planned } from './plan.ts'
import { leftAlone, type RedeployMethod, redeploy } from './redeploy.ts'
import { nudged, rangeOf } from './sizes.ts'
import { Progress, pause } from './timing.ts'
import { minutes, sentenceOf } from './words.ts'

export interface UpgradeOptions {
  /** How many clusters at once. */
  readonly parallel: number
  readonly redeploy: RedeployMethod
  /** For the upgrade of one cluster, in milliseconds. */
  readonly upgradeTimeout: number
  /** For one step of a redeploy, in milliseconds. */
  readonly redeployTimeout: number
  readonly log: Log
}

export type UpgradeResult = 'upgraded' | 'would upgrade' | 'skipped' | 'failed' | 'cancelled'

/** What became of one cluster: a row of the summary. */
export interface ClusterReport {
  readonly cluster: string
  readonly id: string
  readonly from: string
  readonly to: string
  readonly result: UpgradeResult
  /** Why, or what is the matter; empty when there is nothing to say. */
  readonly note: string
  readonly autoscalerBefore: string
  readonly autoscalerAfter: string
  /** What a human has to look at though the upgrade went well. */
  readonly warning?: string
}

/**
 * Upgrades clusters, each followed by its autoscaler. One that fails does not stop the others; a cancel starts no
 * further one.
 * @throws nothing but bugs: failures and cancels are in the reports, in the order of the plan
 */
export async function upgradeAll(
  api: CloudStack,
  planned: readonly Planned[],
  goal: string,
  options: UpgradeOptions,
): Promise<readonly ClusterReport[]> {
  return await pMap(planned, (each) => upgradeOne(api, each, goal, options), {
    concurrency: options.parallel,
  })
}

/** What {@link upgradeAll} would do. */
export function dryRun(
  planned: readonly Planned[],
  goal: string,
  method: RedeployMethod,
): readonly ClusterReport[] {
  return planned.map((each) => {
    const { cluster, verdict } = each
    if (verdict.kind !== 'upgrade') return notUpgraded(each, goal)
    const left = leftAlone(cluster, method)
    const { sizes } = cluster
    const before = left ?? (sizes === undefined ? '' : `sizes ${rangeOf(sizes)}`)
    return {
      ...basics(each, goal),
      result: 'would upgrade' as const,
      note: `to ${verdict.target.name} (${verdict.target.id})`,
      autoscalerBefore: before,
      autoscalerAfter: left ?? wouldRedeploy(cluster, method),
    }
  })
}

function wouldRedeploy({ sizes }: Cluster, method: RedeployMethod): string {
  if (method.kind === 'kubeconfig') return `would apply ${method.manifest.where}`
  const moved = sizes === undefined ? undefined : nudged(sizes)
  return sizes === undefined || moved === undefined
    ? 'could not be redeployed'
    : `would redeploy by sizes ${rangeOf(moved)}, then ${rangeOf(sizes)}`
}

async function upgradeOne(
  api: CloudStack,
  planned: Planned,
  goal: string,
  options: UpgradeOptions,
): Promise<ClusterReport> {
  const { cluster, verdict } = planned
  const { log } = options
  if (verdict.kind !== 'upgrade') {
    const report = notUpgraded(planned, goal)
    const said = `cluster ${cluster.name}: ${report.result}: ${report.note}`
    if (report.result === 'failed') log.warning(said)
    else log.info(said)
    return report
  }
  const row = { ...basics(planned, goal), autoscalerBefore: '', autoscalerAfter: '' }
  if (api.signal.aborted) return { ...row, result: 'cancelled', note: 'not started' }
  try {
    log.info(`cluster ${cluster.name}: upgrading from ${row.from} to ${goal}`)
    await upgrade(api, cluster, verdict.target, options)
    log.info(`cluster ${cluster.name}: upgraded to ${goal}`)
  } catch (thrown) {
    if (thrown instanceof Cancelled) {
      log.warning(`cluster ${cluster.name}: cancelled: ${thrown.message}`)
      return { ...row, result: 'cancelled', note: thrown.message }
    }
    if (!(thrown instanceof Failure)) throw thrown
    const now = await lookedUp(api, cluster).catch(() => undefined)
    const note = `${sentenceOf(thrown)}${now === undefined ? '' : `; its state is ${now.state}`}`
    log.warning(`cluster ${cluster.name}: not upgraded: ${note}`)
    return { ...row, result: 'failed', note }
  }
  return { ...row, result: 'upgraded', note: '', ...(await autoscalerOf(api, cluster, options)) }
}

/**
 * Starts the upgrade and waits for its end. CloudStack sets the cluster's version as the last step, so that decides.
 * @throws Failure; Cancelled, saying what goes on in CloudStack
 */
async function upgrade(
  api: CloudStack,
  cluster: Cluster,
  target: SupportedVersion,
  { upgradeTimeout, log }: UpgradeOptions,
): Promise<void> {
  const what = `cluster ${cluster.name}: upgrade`
  let fate = 'whether the upgrade has begun is to be seen in CloudStack'
  try {
    const parameters = { id: cluster.id, kubernetesversionid: target.id }
    const job = await api.change('upgradeKubernetesCluster', parameters).catch((thrown: unknown) => {
      if (!(thrown instanceof NoAnswer) || !thrown.mayHaveHappened) throw thrown
      return thrown
    })
    if (job instanceof NoAnswer) {
      log.info(`${what}: the answer was lost (${job.reason}); looking whether it took effect`)
      if (!(await followed(api, cluster, target, what, upgradeTimeout, log))) throw job
    } else {
      fate = 'the upgrade goes on in CloudStack; afterwards its autoscaler is to be redeployed'
      await api.job(job, what, upgradeTimeout)
    }
    const now = await lookedUp(api, cluster)
    if (now.versionId === target.id) return
  } catch (thrown) {
    throw thrown instanceof Cancelled ? new Cancelled(fate) : thrown
  }
  throw new Failure(
    `${what}: CloudStack says it has ended well, but the cluster does not run ${target.name}`,
    "Look into CloudStack's management server log.",
  )
}

/**
 * Watches a cluster whose upgrade may have begun, without a job to ask.
 * @returns false when it has not begun
 * @throws Failure when it ended badly or takes too long
 */
async function followed(
  api: CloudStack,
  cluster: Cluster,
  target: SupportedVersion,
  what: string,
  timeout: number,
  log: Log,
): Promise<boolean> {
  const beginsUntil = Date.now() + api.timing.settle
  const deadline = Date.now() + timeout
  const progress = new Progress((text) => log.info(`${what}: ${text}`), api.timing.remind)
  let begun = false
  for (;;) {
    await pause(api.timing.poll, api.signal)
    const now = await lookedUp(api, cluster)
    progress.is(`its state is ${now.state}`)
    if (now.versionId === target.id && now.state === 'Running') return true
    begun ||= now.state !== 'Running'
    if (begun && now.state !== 'Upgrading') {
      throw new Failure(
        `${what}: it ended in state ${now.state}`,
        "Look into CloudStack's management server log.",
      )
    }
    if (!begun && Date.now() > beginsUntil) return false
    if (Date.now() > deadline) {
      throw new Failure(
        `${what}: it has not ended within ${minutes(timeout)}`,
        'It goes on in CloudStack: look there how it ends, and allow more time with upgrade-timeout.',
      )
    }
  }
}

async function autoscalerOf(
  api: CloudStack,
  cluster: Cluster,
  { redeploy: method, redeployTimeout, log }: UpgradeOptions,
): Promise<Pick<ClusterReport, 'autoscalerBefore' | 'autoscalerAfter' | 'warning'>> {
  try {
    // Read again: an hour has passed, and the sizes must end as they are now.
    const now = await lookedUp(api, cluster)
    const { before, after, warning } = await redeploy(api, now, method, redeployTimeout, log)
    if (warning === undefined) return { autoscalerBefore: before, autoscalerAfter: after }
    log.warning(warning)
    return { autoscalerBefore: before, autoscalerAfter: after, warning }
  } catch (thrown) {
    if (!(thrown instanceof Failure) && !(thrown instanceof Cancelled)) throw thrown
    const warning = `cluster ${cluster.name}: the autoscaler was not redeployed: ${sentenceOf(thrown)}`
    log.warning(warning)
    return { autoscalerBefore: '', autoscalerAfter: 'not redeployed', warning }
  }
}

function notUpgraded(planned: Planned, goal: string): ClusterReport {
  const { verdict, cluster } = planned
  const left = leftAlone(cluster, { kind: 'none' }) ?? ''
  return {
    ...basics(planned, goal),
    result: verdict.kind === 'refuse' ? 'failed' : 'skipped',
    note: verdict.kind === 'upgrade' ? '' : verdict.reason,
    autoscalerBefore: left,
    autoscalerAfter: left,
  }
}

function basics(
  { cluster, from }: Planned,
  to: string,
): Pick<ClusterReport, 'cluster' | 'id' | 'from' | 'to'> {
  return { cluster: cluster.name, id: cluster.id, from: from ?? 'unknown', to }
}
