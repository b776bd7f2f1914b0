import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import type { ClusterReport } from '../../src/cloudstack/upgrade.ts'
import { Cancelled } from '../../src/errors.ts'
import { Lines, type RunOptions, runAgainst } from '../cloudstack/rig.ts'
import { CloudStackStandIn, type StandInVersion } from '../cloudstack/stand-in.ts'

let cloud: CloudStackStandIn
let endpoint: string
let log: Lines
let old: StandInVersion
let target: StandInVersion

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
  log = new Lines()
  old = cloud.addVersion('1.32.14')
  target = cloud.addVersion('1.33.13')
})
afterEach(() => cloud.stop())

const upgrade = (more: CloudStackValues = {}, options: RunOptions = {}) =>
  runAgainst(
    cloud,
    endpoint,
    { 'kubernetes-version': '1.33.13', clusters: 'all', ...more },
    { log, ...options },
  )

const upgradesSent = () => cloud.changes.filter(({ command }) => command === 'upgradeKubernetesCluster')
const results = (clusters: readonly ClusterReport[]) =>
  clusters.map(({ cluster, result }) => [cluster, result])

describe('upgrading clusters', () => {
  it('polls the job to its end, and the summary says from where to where', async () => {
    cloud.jobTime = 120
    const cluster = cloud.addCluster('prod', old)
    const report = await upgrade({ clusters: 'prod' })
    expect(report.failure).toBeUndefined()
    expect(cluster.kubernetesversionid).toBe(target.id)
    expect(report.summary).toContain('| prod | 1.32.14 | 1.33.13 | upgraded | off | off |  |')
    expect(log.text).toMatch(/cluster prod: upgrade: job \S+ is running/)
  })

  it('takes all that run an older patch of the minor or of the previous one, and says why others are skipped', async () => {
    cloud.addCluster('patch', cloud.addVersion('1.33.1'))
    cloud.addCluster('minor', old)
    cloud.addCluster('too-old', cloud.addVersion('1.31.14'))
    cloud.addCluster('there', target)
    cloud.addCluster('newer', cloud.addVersion('1.34.1'))
    cloud.addCluster('stopped', old, { state: 'Stopped' })
    cloud.addCluster('external', old, { clustertype: 'ExternalManaged' })
    cloud.addCluster('of-a-project', old, { projectid: 'p-1' })
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(results(clusters)).toEqual([
      ['patch', 'upgraded'],
      ['minor', 'upgraded'],
      ['too-old', 'skipped'],
      ['there', 'skipped'],
      ['newer', 'skipped'],
      ['stopped', 'skipped'],
      ['external', 'skipped'],
      ['of-a-project', 'upgraded'],
    ])
    expect(upgradesSent()).toHaveLength(3)
    expect(log.text).toContain(
      'cluster too-old: skipped: runs 1.31.14, and an upgrade goes one minor at a time',
    )
  })

  it('of some zones looks there only', async () => {
    cloud.addCluster('here', old)
    const [, { id: zoneid }] = cloud.zones
    cloud.addCluster('there', old, { zoneid })
    expect(results((await upgrade({ zones: 'zone-2' })).clusters)).toEqual([['there', 'upgraded']])
  })

  it('of which there are none is no failure', async () => {
    const { failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(log.text).toContain('there is no cluster to upgrade')
  })

  it('with a name that does not exist starts nothing', async () => {
    cloud.addCluster('prod', old)
    const { failure } = await upgrade({ clusters: 'prod, typo' })
    expect(failure?.message).toContain('there is no cluster "typo"')
    expect(upgradesSent()).toEqual([])
  })

  it('that were named and cannot be upgraded is a failure, the others are upgraded all the same', async () => {
    cloud.addCluster('a', cloud.addVersion('1.30.1'))
    cloud.addCluster('b', old)
    const { failure, clusters } = await upgrade({ clusters: 'a, b' })
    expect(results(clusters)).toEqual([
      ['a', 'failed'],
      ['b', 'upgraded'],
    ])
    expect(failure?.message).toMatch(/1 of 2 clusters were not upgraded: a \(runs 1\.30\.1/)
  })

  it('goes one after another, or so many at once', async () => {
    cloud.jobTime = 40
    const most = async (parallel: string) => {
      for (const name of ['a', 'b', 'c']) cloud.addCluster(`${name}-${parallel}`, old)
      let busiest = 0
      cloud.onCall = () => {
        busiest = Math.max(busiest, cloud.clusters.filter(({ state }) => state === 'Upgrading').length)
      }
      await upgrade({ parallel })
      return busiest
    }
    expect(await most('1')).toBe(1)
    expect(await most('2')).toBe(2)
  })

  it('in a dry run only says what would happen', async () => {
    cloud.addCluster('a', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
    cloud.addCluster('b', target)
    const { clusters, summary, failure } = await upgrade({ 'dry-run': 'true' })
    expect(failure).toBeUndefined()
    expect(cloud.changes).toEqual([])
    expect(results(clusters)).toEqual([
      ['a', 'would upgrade'],
      ['b', 'skipped'],
    ])
    expect(summary).toContain('| sizes 2–5 | would redeploy by sizes 3–5, then 2–5 |')
  })

  it('in a dry run of both counts the ISO as registered', async () => {
    cloud.versions.splice(1, 1)
    cloud.addCluster('a', old)
    const more = {
      'iso-url': 'https://isos.example/a.iso',
      'iso-checksum': 'ab'.repeat(32),
      'dry-run': 'true',
    }
    const { registered, clusters } = await upgrade(more)
    expect(registered).toMatchObject([{ outcome: 'would register' }])
    expect(results(clusters)).toEqual([['a', 'would upgrade']])
    expect(cloud.changes).toEqual([])
  })

  it('follows the registration in one run', async () => {
    cloud.versions.splice(1, 1)
    const cluster = cloud.addCluster('a', old)
    const report = await upgrade({ 'iso-url': 'https://isos.example/a.iso', 'iso-checksum': 'ab'.repeat(32) })
    expect(report.failure).toBeUndefined()
    expect(cloud.versions.find(({ id }) => id === cluster.kubernetesversionid)?.semanticversion).toBe(
      '1.33.13',
    )
    expect(report.summary).toMatch(
      /Kubernetes version in CloudStack[\s\S]*registered[\s\S]*Clusters[\s\S]*upgraded/,
    )
  })

  it('does not follow a registration that failed', async () => {
    cloud.addCluster('a', old)
    cloud.fault('addKubernetesSupportedVersion', { kind: 'error', code: 530, text: 'no' })
    const more = {
      'iso-url': 'https://isos.example/a.iso',
      'iso-checksum': 'ab'.repeat(32),
      'version-name': 'x',
    }
    const { failure, clusters } = await upgrade(more)
    expect(failure?.message).toContain('530: no')
    expect(clusters).toEqual([])
  })
})

describe('an upgrade that fails', () => {
  it("names the cluster, CloudStack's reason and the state, and the other cluster is upgraded", async () => {
    const a = cloud.addCluster('a', old)
    const b = cloud.addCluster('b', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
    const text = 'Failed to upgrade Kubernetes cluster : a, unable to drain Kubernetes node on VM : a-node-1'
    cloud.fault('upgradeKubernetesCluster', { kind: 'job fails', code: 530, text })
    const { failure, clusters, summary } = await upgrade()
    expect(results(clusters)).toEqual([
      ['a', 'failed'],
      ['b', 'upgraded'],
    ])
    expect(clusters[0]?.note).toBe(`cluster a: upgrade: CloudStack answered 530: ${text}; its state is Alert`)
    expect(failure?.message).toContain('1 of 2 clusters were not upgraded: a (')
    expect(summary).toMatch(/### Needs your attention\n\n- 1 of 2 clusters/)
    expect(a.kubernetesversionid).toBe(old.id)
    expect(b.node.running?.image).toContain('v1.33.13')
  })

  it('leaves its autoscaler alone', async () => {
    cloud.addCluster('a', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
    cloud.fault('upgradeKubernetesCluster', { kind: 'job fails', code: 530, text: 'x' })
    await upgrade()
    expect(cloud.changes.map(({ command }) => command)).toEqual(['upgradeKubernetesCluster'])
  })

  it("by refusal gives CloudStack's words", async () => {
    cloud.addCluster('a', old)
    cloud.fault('upgradeKubernetesCluster', { kind: 'error', code: 431, text: 'minimum 4 vCPUs needed' })
    expect((await upgrade()).clusters[0]?.note).toContain('431: minimum 4 vCPUs needed')
  })

  it('though its job says success is found out', async () => {
    cloud.addCluster('a', old)
    cloud.fault('upgradeKubernetesCluster', { kind: 'job does nothing' })
    const { clusters } = await upgrade()
    expect(clusters[0]).toMatchObject({
      result: 'failed',
      note: expect.stringContaining('does not run v1.33.13'),
    })
  })
})

describe('an answer of upgradeKubernetesCluster that is lost', () => {
  it('is looked up: an upgrade that has begun is followed to its end', async () => {
    cloud.jobTime = 100
    const cluster = cloud.addCluster('a', old)
    cloud.fault('upgradeKubernetesCluster', { kind: 'lose answer' })
    const { clusters } = await upgrade()
    expect(results(clusters)).toEqual([['a', 'upgraded']])
    expect(cluster.kubernetesversionid).toBe(target.id)
    expect(upgradesSent()).toHaveLength(1)
  })

  it('is looked up: an upgrade that has begun and fails is a failure', async () => {
    cloud.jobTime = 50
    const cluster = cloud.addCluster('a', old)
    cloud.fault('upgradeKubernetesCluster', { kind: 'lose answer' })
    cloud.onCall = (command) => {
      if (command === 'listKubernetesClusters' && cluster.state === 'Upgrading') cluster.state = 'Alert'
    }
    expect((await upgrade()).clusters[0]?.note).toContain('it ended in state Alert')
  })

  it('is an error when it did not begin, and is never sent again', async () => {
    cloud.addCluster('a', old)
    cloud.fault('upgradeKubernetesCluster', { kind: 'drop' })
    const { clusters } = await upgrade()
    expect(clusters[0]).toMatchObject({ result: 'failed', note: expect.stringContaining('no answer from') })
    expect(upgradesSent()).toHaveLength(1)
  })

  it('of a list in between is asked for again', async () => {
    cloud.addCluster('a', old)
    cloud.fault('listKubernetesClusters', { kind: 'drop' }, { kind: 'half an answer' })
    cloud.fault('queryAsyncJobResult', { kind: 'drop' })
    expect(results((await upgrade()).clusters)).toEqual([['a', 'upgraded']])
  })
})

describe('a cancel', () => {
  it('in mid-upgrade stops asking, starts no other cluster, and says what goes on', async () => {
    cloud.jobTime = 400
    cloud.addCluster('a', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
    cloud.addCluster('b', old)
    const cancel = new AbortController()
    cloud.onCall = (command) => command === 'queryAsyncJobResult' && cancel.abort()
    const started = Date.now()
    const { failure, clusters, summary } = await upgrade({}, { signal: cancel.signal })
    expect(Date.now() - started).toBeLessThan(350)
    expect(failure).toBeInstanceOf(Cancelled)
    expect(clusters.map(({ cluster, result, note }) => [cluster, result, note])).toEqual([
      ['a', 'cancelled', 'the upgrade goes on in CloudStack; afterwards its autoscaler is to be redeployed'],
      ['b', 'cancelled', 'not started'],
    ])
    expect(log.warnings.slice(1)).toEqual([
      'cluster a: cancelled: the upgrade goes on in CloudStack; afterwards its autoscaler is to be redeployed',
    ])
    expect(summary).toContain('goes on in CloudStack')
    expect(cloud.changes).toHaveLength(1)
  })

  it('before anything changes nothing', async () => {
    cloud.addCluster('a', old)
    const { failure } = await upgrade({}, { signal: AbortSignal.abort() })
    expect(failure).toBeInstanceOf(Cancelled)
    expect(cloud.changes).toEqual([])
  })
})

it('a plain http endpoint is warned of', async () => {
  await upgrade()
  expect(log.warnings.join()).toContain('is not encrypted')
})
