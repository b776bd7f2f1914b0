import { parse, type SemVer } from 'semver'
import { Failure } from '../errors.ts'
import type { Cluster, SupportedVersion, Zone } from './model.ts'

/** Which clusters the user wants upgraded. */
export type ClusterChoice =
  | { readonly kind: 'all' }
  /** Names or ids. */
  | { readonly kind: 'named'; readonly names: readonly string[] }

/** What they are to run afterwards. */
export interface UpgradeGoal {
  /** MAJOR.MINOR.PATCH. */
  readonly semver: string
  /** Chooses among versions of the same number. */
  readonly name: string | undefined
}

/** What is done about one cluster. */
export type Verdict =
  | { readonly kind: 'upgrade'; readonly target: SupportedVersion }
  /** Nothing to do, which is fine. */
  | { readonly kind: 'skip'; readonly reason: string }
  /** Asked for and not possible. */
  | { readonly kind: 'refuse'; readonly reason: string }

export interface Planned {
  readonly cluster: Cluster
  /** What it runs now; absent when CloudStack does not list that version. */
  readonly from: string | undefined
  readonly verdict: Verdict
}

/**
 * The clusters that were asked for, each once.
 * @param zones where `all` looks; empty: everywhere
 * @throws Failure for a name that no cluster or several clusters have
 */
export function chosen(
  clusters: readonly Cluster[],
  choice: ClusterChoice,
  zones: readonly Zone[],
): readonly Cluster[] {
  if (choice.kind === 'all') {
    return clusters.filter(({ zoneId }) => zones.length === 0 || zones.some(({ id }) => id === zoneId))
  }
  const found = choice.names.map((wanted) => {
    const [first, second] = clusters.filter(({ id, name }) => id === wanted || name === wanted)
    if (first === undefined) {
      const known = clusters.map(({ name }) => name).join(', ')
      throw new Failure(
        `clusters: there is no cluster ${JSON.stringify(wanted)}`,
        `Name clusters that the user of these keys sees: ${known === '' ? 'there are none' : known}.`,
      )
    }
    if (second !== undefined) {
      throw new Failure(
        `clusters: several clusters are called ${JSON.stringify(wanted)}`,
        `Name it by its id: ${first.id} or ${second.id}.`,
      )
    }
    return first
  })
  return [...new Set(found)]
}

/** Decides for each cluster. A cluster that was named must not be left out in silence; one of `all` may be. */
export function planUpgrades(
  clusters: readonly Cluster[],
  versions: readonly SupportedVersion[],
  goal: UpgradeGoal,
  choice: ClusterChoice,
): readonly Planned[] {
  return clusters.map((cluster) => {
    const current = versions.find(({ id }) => id === cluster.versionId)
    const verdict = verdictOn(cluster, current, versions, goal, choice.kind === 'named')
    return { cluster, from: current?.semver, verdict }
  })
}

function verdictOn(
  cluster: Cluster,
  current: SupportedVersion | undefined,
  versions: readonly SupportedVersion[],
  goal: UpgradeGoal,
  named: boolean,
): Verdict {
  const unfit = (reason: string): Verdict => ({ kind: named ? 'refuse' : 'skip', reason })
  if (!cluster.managed) return unfit('CloudStack does not manage its nodes')
  const from = parse(current?.semver)
  const to = parse(goal.semver)
  if (current === undefined || from === null || to === null) {
    return unfit('CloudStack does not tell which Kubernetes version it runs')
  }
  const order = from.compare(to)
  if (order > 0) return { kind: 'skip', reason: `runs the newer ${current.semver}` }
  const target = targetFor(cluster, current, versions, goal)
  // Another ISO of the same version is an upgrade for CloudStack (KubernetesVersionManagerImpl.canUpgradeKubernetesVersion
  // in newer releases), but nobody asked for it by `all`.
  if (order === 0 && (!named || typeof target === 'string' || target.id === current.id)) {
    return { kind: 'skip', reason: `runs ${current.semver} already` }
  }
  const step = stepProblem(from, to)
  if (step !== undefined) return unfit(step)
  // upgradeKubernetesCluster takes running clusters only (validateKubernetesClusterUpgradeParameters).
  if (cluster.state !== 'Running') return unfit(`its state is ${cluster.state}, not Running`)
  return typeof target === 'string' ? unfit(target) : { kind: 'upgrade', target }
}

/**
 * CloudStack's rule, which is kubeadm's: the same minor, or the next one
 * (KubernetesVersionManagerImpl.canUpgradeKubernetesVersion).
 */
function stepProblem(from: SemVer, to: SemVer): string | undefined {
  if (from.major === to.major && to.minor - from.minor <= 1) return undefined
  return `runs ${from.version}, and an upgrade goes one minor at a time: upgrade it to ${from.major}.${from.minor + 1} first`
}

/** The version to upgrade to, or why there is none. */
function targetFor(
  cluster: Cluster,
  current: SupportedVersion,
  versions: readonly SupportedVersion[],
  goal: UpgradeGoal,
): SupportedVersion | string {
  const fitting = versions.filter(
    (version) =>
      version.semver === goal.semver &&
      (goal.name === undefined || version.name === goal.name) &&
      (version.zoneId === undefined || version.zoneId === cluster.zoneId) &&
      (version.arch === undefined || current.arch === undefined || version.arch === current.arch),
  )
  const called = goal.name === undefined ? goal.semver : `${goal.semver} (${goal.name})`
  if (fitting.length === 0) return `Kubernetes ${called} is not registered for its zone`
  const enabled = fitting.filter((version) => version.enabled)
  if (enabled.length === 0) return `Kubernetes ${called} is disabled in CloudStack`
  const [target, another] = enabled.filter(({ isoState }) => isoState === 'Ready')
  if (target === undefined)
    return `the ISO of Kubernetes ${called} is not ready (${enabled[0]?.isoState ?? 'no state'})`
  if (another !== undefined) {
    return `several versions fit (${target.name}, ${another.name}): choose one with version-name`
  }
  return target
}
