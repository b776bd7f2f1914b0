import { describe, expect, it } from 'vitest'
import type { Cluster, SupportedVersion } from '../../src/cloudstack/model.ts'
import { type ClusterChoice, chosen, planUpgrades, type UpgradeGoal } from '../../src/cloudstack/plan.ts'
import { Failure } from '../../src/errors.ts'

const ALL: ClusterChoice = { kind: 'all' }
const NAMED: ClusterChoice = { kind: 'named', names: ['a'] }
const GOAL: UpgradeGoal = { semver: '1.33.13', name: undefined }

function version(semver: string, more: Partial<SupportedVersion> = {}): SupportedVersion {
  return {
    id: `id-${semver}`,
    name: `v${semver}`,
    semver,
    zoneId: undefined,
    isoId: 'iso',
    isoState: 'Ready',
    enabled: true,
    arch: 'amd64',
    ...more,
  }
}

function cluster(versionId: string, more: Partial<Cluster> = {}): Cluster {
  return {
    id: 'c-1',
    name: 'a',
    zoneId: 'z-1',
    projectId: undefined,
    versionId,
    state: 'Running',
    managed: true,
    autoscaling: false,
    sizes: undefined,
    ...more,
  }
}

const target = version('1.33.13')

function verdict(
  from: string,
  options: {
    versions?: readonly SupportedVersion[]
    cluster?: Partial<Cluster>
    choice?: ClusterChoice
    goal?: UpgradeGoal
  } = {},
) {
  const { versions = [target], choice = ALL, goal = GOAL } = options
  const known = [version(from), ...versions]
  const [planned] = planUpgrades([cluster(`id-${from}`, options.cluster)], known, goal, choice)
  return planned?.verdict
}

describe('which clusters are upgraded', () => {
  it.each(['1.33.1', '1.33.9', '1.32.14', '1.32.0'])('%s goes to 1.33.13', (from) => {
    expect(verdict(from)).toEqual({ kind: 'upgrade', target })
  })

  it('goes one minor at a time, as kubeadm does', () => {
    expect(verdict('1.31.14')).toEqual({
      kind: 'skip',
      reason: 'runs 1.31.14, and an upgrade goes one minor at a time: upgrade it to 1.32 first',
    })
    expect(verdict('1.31.14', { choice: NAMED })?.kind).toBe('refuse')
  })

  it('compares numbers, not text', () => {
    expect(verdict('1.33.9')?.kind).toBe('upgrade')
    expect(verdict('1.33.100')).toEqual({ kind: 'skip', reason: 'runs the newer 1.33.100' })
  })

  it('leaves a cluster that is there alone, named or not', () => {
    const there = { kind: 'skip', reason: 'runs 1.33.13 already' }
    expect(verdict('1.33.13', { versions: [] })).toEqual(there)
    expect(verdict('1.33.13', { versions: [], choice: NAMED })).toEqual(there)
  })

  it('takes another ISO of the same release for a cluster that is named only', () => {
    const rebuilt = version('1.33.13', { id: 'rebuilt', name: 'v1.33.13-2' })
    const goal = { semver: '1.33.13', name: 'v1.33.13-2' }
    expect(verdict('1.33.13', { versions: [rebuilt], goal, choice: NAMED })).toEqual({
      kind: 'upgrade',
      target: rebuilt,
    })
    expect(verdict('1.33.13', { versions: [rebuilt], goal })?.kind).toBe('skip')
  })

  it.each([
    [{ state: 'Stopped' }, 'its state is Stopped, not Running'],
    [{ managed: false }, 'CloudStack does not manage its nodes'],
    [{ versionId: 'gone' }, 'CloudStack does not tell which Kubernetes version it runs'],
  ])('a cluster like %o is skipped among all, and refused when named', (more, reason) => {
    expect(verdict('1.33.1', { cluster: more })).toEqual({ kind: 'skip', reason })
    expect(verdict('1.33.1', { cluster: more, choice: NAMED })).toEqual({ kind: 'refuse', reason })
  })
})

describe('the version that a cluster is upgraded to', () => {
  it.each([
    [[], 'Kubernetes 1.33.13 is not registered for its zone'],
    [[version('1.33.13', { zoneId: 'z-2' })], 'Kubernetes 1.33.13 is not registered for its zone'],
    [[version('1.33.13', { arch: 'arm64' })], 'Kubernetes 1.33.13 is not registered for its zone'],
    [[version('1.33.13', { enabled: false })], 'Kubernetes 1.33.13 is disabled in CloudStack'],
    [[version('1.33.13', { isoState: 'Creating' })], 'the ISO of Kubernetes 1.33.13 is not ready (Creating)'],
  ])('is missing: %o', (versions, reason) => {
    expect(verdict('1.33.1', { versions, choice: NAMED })).toEqual({ kind: 'refuse', reason })
  })

  it('is the one of its zone and architecture', () => {
    const fitting = version('1.33.13', { id: 'fits', zoneId: 'z-1' })
    const versions = [
      version('1.33.13', { id: 'x', zoneId: 'z-2' }),
      version('1.33.13', { id: 'y', arch: 'arm64' }),
      fitting,
    ]
    expect(verdict('1.33.1', { versions })).toEqual({ kind: 'upgrade', target: fitting })
  })

  it('is chosen by version-name where several fit', () => {
    const other = version('1.33.13', { id: 'other', name: 'nightly-7' })
    const versions = [target, other]
    expect(verdict('1.33.1', { versions, choice: NAMED })).toEqual({
      kind: 'refuse',
      reason: 'several versions fit (v1.33.13, nightly-7): choose one with version-name',
    })
    const goal = { semver: '1.33.13', name: 'nightly-7' }
    expect(verdict('1.33.1', { versions, goal })).toEqual({ kind: 'upgrade', target: other })
  })
})

describe('the clusters that are asked for', () => {
  const a = cluster('v', { id: 'id-a', name: 'a', zoneId: 'z-1' })
  const b = cluster('v', { id: 'id-b', name: 'b', zoneId: 'z-2' })
  const twin = cluster('v', { id: 'id-c', name: 'b', zoneId: 'z-2' })

  it('are all of them, or those of the zones', () => {
    expect(chosen([a, b], ALL, [])).toEqual([a, b])
    expect(chosen([a, b], ALL, [{ id: 'z-2', name: 'two' }])).toEqual([b])
  })

  it('are named by name or id, each taken once', () => {
    expect(chosen([a, b], { kind: 'named', names: ['b', 'id-a', 'a'] }, [])).toEqual([b, a])
  })

  it('must exist', () => {
    expect(() => chosen([a, b], { kind: 'named', names: ['c'] }, [])).toThrow(Failure)
    expect(() => chosen([a, b], { kind: 'named', names: ['c'] }, [])).toThrow(/no cluster "c"\n.*a, b/)
  })

  it('must not be one of several of that name', () => {
    expect(() => chosen([a, b, twin], { kind: 'named', names: ['b'] }, [])).toThrow(
      /several.*\n.*id-b or id-c/,
    )
    expect(chosen([a, b, twin], { kind: 'named', names: ['id-c'] }, [])).toEqual([twin])
  })
})
