import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import { Cancelled } from '../../src/errors.ts'
import { clientOf, Lines, type RunOptions, runAgainst } from '../cloudstack/rig.ts'
import { CloudStackStandIn, type StandInCluster, type StandInVersion } from '../cloudstack/stand-in.ts'

const OLD = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.32.14'
const NEW = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.13'

let cloud: CloudStackStandIn
let endpoint: string
let log: Lines
let old: StandInVersion

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
  log = new Lines()
  old = cloud.addVersion('1.32.14')
  cloud.addVersion('1.33.13')
})
afterEach(() => cloud.stop())

const scaled = (minsize: number, maxsize: number, more: Partial<StandInCluster> = {}) =>
  cloud.addCluster('prod', old, { autoscalingenabled: true, minsize, maxsize, ...more })

const upgrade = (more: CloudStackValues = {}, options: RunOptions = {}) =>
  runAgainst(
    cloud,
    endpoint,
    { 'kubernetes-version': '1.33.13', clusters: 'prod', ...more },
    { log, ...options },
  )

const scales = () =>
  cloud.changes
    .filter(({ command }) => command === 'scaleKubernetesCluster')
    .map(
      ({ parameters: { minsize, maxsize, autoscalingenabled } }) =>
        `${autoscalingenabled} ${minsize} ${maxsize}`,
    )

const sizesOf = ({ minsize, maxsize }: StandInCluster) => [minsize, maxsize]

describe('the autoscaler of an upgraded cluster', () => {
  it('would go on as it was: the upgrade alone leaves the old one running', async () => {
    const cluster = scaled(2, 5)
    await upgrade({ redeploy: 'none' })
    expect(cluster.node).toMatchObject({ template: NEW, running: { image: OLD } })
  })

  it('would go on as it was: saying the same sizes again is a silent no-op', async () => {
    const cluster = scaled(2, 5)
    await upgrade({ redeploy: 'none' })
    const api = clientOf(cloud, endpoint)
    const same = { id: cluster.id, autoscalingenabled: 'true', minsize: '2', maxsize: '5' }
    await api.job(await api.change('scaleKubernetesCluster', same), 'scale', 1_000)
    expect(cluster.node.running?.image).toBe(OLD)
  })

  it('is deployed anew by a size moved by one and back', async () => {
    const cluster = scaled(2, 5)
    const { clusters, failure, summary } = await upgrade()
    expect(failure).toBeUndefined()
    expect(scales()).toEqual(['true 3 5', 'true 2 5'])
    expect(cluster.node.running).toEqual({ image: NEW, min: 2, max: 5 })
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(clusters[0]).toMatchObject({
      result: 'upgraded',
      autoscalerBefore: 'sizes 2–5',
      autoscalerAfter: 'redeployed, sizes 2–5',
    })
    expect(summary).toContain('| upgraded | sizes 2–5 | redeployed, sizes 2–5 |')
    expect(log.warnings.filter((text) => !text.startsWith('endpoint'))).toEqual([])
  })

  it('is never turned off on the way', async () => {
    const cluster = scaled(1, 4)
    let off = false
    cloud.onCall = () => {
      off ||= !cluster.autoscalingenabled || cluster.node.running === undefined
    }
    await upgrade()
    expect(off).toBe(false)
  })

  it('is deployed with the sizes of that moment, not of an hour ago', async () => {
    const cluster = scaled(2, 5)
    cloud.onCall = (command) => {
      if (command === 'upgradeKubernetesCluster') Object.assign(cluster, { minsize: 4, maxsize: 8 })
    }
    await upgrade()
    expect(scales()).toEqual(['true 5 8', 'true 4 8'])
    expect(sizesOf(cluster)).toEqual([4, 8])
  })

  it('is left alone when autoscaling is off', async () => {
    cloud.addCluster('prod', old)
    const { clusters } = await upgrade()
    expect(scales()).toEqual([])
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerBefore: 'off', autoscalerAfter: 'off' })
  })

  it.each([
    { minsize: 2, maxsize: undefined },
    { minsize: undefined, maxsize: 5 },
    { minsize: undefined, maxsize: undefined },
  ])('is left alone when a size is unset: %o', async (sizes) => {
    cloud.addCluster('prod', old, { autoscalingenabled: true, ...sizes })
    const { clusters } = await upgrade()
    expect(scales()).toEqual([])
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerAfter: 'on, sizes unset' })
  })

  it('is left alone when nobody wants it', async () => {
    scaled(2, 5)
    const { clusters } = await upgrade({ redeploy: 'none' })
    expect(clusters[0]).toMatchObject({ autoscalerBefore: 'on, sizes 2–5', autoscalerAfter: 'on, sizes 2–5' })
  })
})

describe("sizes at the account's limit", () => {
  it('are no hindrance where the minimum can move', async () => {
    cloud.maxClusterSize = 6
    const cluster = scaled(2, 5)
    await upgrade()
    expect(cluster.node.running).toEqual({ image: NEW, min: 2, max: 5 })
  })

  it('above which an administrator has lowered it are not lost', async () => {
    cloud.maxClusterSize = 4
    const cluster = scaled(2, 5)
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(cluster.node.running?.image).toBe(OLD)
    expect(clusters[0]?.warning).toMatch(
      /cluster prod: the autoscaler was not redeployed.*431: Maximum cluster size can not exceed 4/,
    )
  })

  it('with no room at all stay, the upgrade is a success and the warning names the cluster', async () => {
    cloud.maxClusterSize = 3
    const cluster = scaled(1, 2)
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(scales()).toEqual(['true 1 3'])
    expect(sizesOf(cluster)).toEqual([1, 2])
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerAfter: 'not redeployed, sizes 1–2' })
    expect(log.warnings.join()).toContain(
      'cluster prod: the autoscaler was not redeployed, the old one goes on',
    )
  })

  it('with room above move the maximum', async () => {
    const cluster = scaled(1, 2)
    await upgrade()
    expect(scales()).toEqual(['true 1 3', 'true 1 2'])
    expect(cluster.node.running).toEqual({ image: NEW, min: 1, max: 2 })
  })

  it('that CloudStack would not take back are not touched', async () => {
    const cluster = scaled(0, 3)
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(scales()).toEqual([])
    expect(sizesOf(cluster)).toEqual([0, 3])
    expect(clusters[0]?.warning).toContain('would not take its sizes 0–3 back')
  })
})

describe('a redeploy that fails', () => {
  it('at the first call leaves sizes and the old autoscaler, and the upgrade a success', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', {
      kind: 'job fails',
      code: 530,
      text: 'Failed to autoscale Kubernetes cluster: prod',
    })
    const { clusters, failure, summary } = await upgrade()
    expect(failure).toBeUndefined()
    expect(scales()).toEqual(['true 3 5'])
    expect(cluster.node.running).toEqual({ image: OLD, min: 2, max: 5 })
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerAfter: 'not redeployed, sizes 2–5' })
    expect(log.warnings.join()).toMatch(
      /cluster prod: the autoscaler was not redeployed.*530: Failed to autoscale/,
    )
    expect(summary).toMatch(/### Needs your attention\n\n- cluster prod/)
  })

  it('at the first call by refusal does the same', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', { kind: 'error', code: 432, text: 'not available' })
    const { clusters } = await upgrade()
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(clusters[0]?.warning).toContain('432: not available')
  })

  it('without CloudStack noticing it is noticed', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', { kind: 'job does nothing' })
    const { clusters } = await upgrade()
    expect(scales()).toEqual(['true 3 5'])
    expect(cluster.node.running?.image).toBe(OLD)
    expect(clusters[0]?.warning).toContain('CloudStack reported success and changed nothing')
  })

  it('at the second call is repeated until the sizes are back', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', NOTHING, FAILS, { kind: 'error', code: 530, text: 'busy' })
    const { clusters } = await upgrade()
    expect(scales()).toEqual(['true 3 5', 'true 2 5', 'true 2 5', 'true 2 5'])
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(clusters[0]?.warning).toBeUndefined()
    expect(clusters[0]?.autoscalerAfter).toBe('redeployed, sizes 2–5')
  })

  it('at the second call for good says loudly which cluster needs what', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', NOTHING, FAILS, FAILS, FAILS, FAILS)
    const { clusters, failure, summary } = await upgrade()
    expect(failure).toBeUndefined()
    expect(sizesOf(cluster)).toEqual([3, 5])
    expect(clusters[0]).toMatchObject({
      result: 'upgraded',
      autoscalerAfter: 'SIZES NOT RESTORED: 3–5 instead of 2–5',
    })
    const call = `scaleKubernetesCluster id=${cluster.id} autoscalingenabled=true minsize=2 maxsize=5`
    expect(log.warnings.join()).toContain(
      `could not be put back from 3–5 to 2–5: CloudStack answered 530: no route to host. Call ${call}.`,
    )
    expect(summary).toContain(call)
  })

  it('because the job of the first call does not end is not called done', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', { kind: 'job hangs' })
    cloud.onCall = (command) => {
      if (command === 'scaleKubernetesCluster') cluster.state = 'Scaling'
    }
    const { redeployByScale } = await import('../../src/cloudstack/redeploy-scale.ts')
    const { lookedUp } = await import('../../src/cloudstack/inventory.ts')
    const api = clientOf(cloud, endpoint, { log })
    const before = {
      ...(await lookedUp(api, { ...cluster, projectId: undefined })),
      sizes: { min: 2, max: 5 },
    }
    const { after, warning } = await redeployByScale(api, before, 40, log)
    expect(after).toBe('SIZES NOT CERTAIN: 3–5 or 2–5')
    expect(warning).toMatch(/its scaling has not ended.*minsize=2 maxsize=5/)
  })

  it('does not keep another cluster from its own', async () => {
    scaled(2, 5)
    const other = cloud.addCluster('other', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
    cloud.fault('scaleKubernetesCluster', FAILS)
    const { clusters } = await upgrade({ clusters: 'all' })
    expect(clusters.map(({ result, warning }) => [result, warning === undefined])).toEqual([
      ['upgraded', false],
      ['upgraded', true],
    ])
    expect(other.node.running?.image).toBe(NEW)
  })
})

const NOTHING = { kind: 'none' } as const
const FAILS = { kind: 'job fails', code: 530, text: 'no route to host' } as const

describe('an answer of scaleKubernetesCluster that is lost', () => {
  it.each(['lose answer', 'half an answer'] as const)(
    '(%s) at the first call is looked up, and the sizes are put back',
    async (kind) => {
      const cluster = scaled(2, 5)
      cloud.fault('scaleKubernetesCluster', { kind })
      const { clusters } = await upgrade()
      expect(scales()).toEqual(['true 3 5', 'true 2 5'])
      expect(cluster.node.running).toEqual({ image: NEW, min: 2, max: 5 })
      expect(clusters[0]?.warning).toBeUndefined()
    },
  )

  it('at the first call, and it did not arrive: sizes and autoscaler stay', async () => {
    const cluster = scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', { kind: 'drop' })
    const { clusters } = await upgrade()
    expect(scales()).toEqual(['true 3 5'])
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(clusters[0]?.warning).toMatch(
      /was not redeployed.*Should the lost call arrive late, its sizes become 3–5/,
    )
  })

  it('at the second call is looked up, not sent again', async () => {
    const cluster = scaled(2, 5)
    cloud.jobTime = 60
    cloud.fault('scaleKubernetesCluster', NOTHING, { kind: 'lose answer' })
    await upgrade()
    expect(scales()).toEqual(['true 3 5', 'true 2 5'])
    expect(sizesOf(cluster)).toEqual([2, 5])
  })

  it('and CloudStack stays away: the sizes are said to be uncertain', async () => {
    scaled(2, 5)
    cloud.fault('scaleKubernetesCluster', { kind: 'lose answer' })
    let away = false
    cloud.onCall = (command) => {
      away ||= command === 'scaleKubernetesCluster'
      if (away) cloud.fault(command, { kind: 'drop' })
    }
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(clusters[0]).toMatchObject({
      result: 'upgraded',
      autoscalerAfter: 'SIZES NOT CERTAIN: 3–5 or 2–5',
    })
  })
})

describe('someone else, in the meantime,', () => {
  const afterFirst = (change: (cluster: StandInCluster) => void) => {
    const cluster = scaled(2, 5)
    cloud.onCall = (command) => {
      if (command === 'queryAsyncJobResult' && cluster.minsize === 3) change(cluster)
    }
    return cluster
  }

  it('sets other sizes: they are left so', async () => {
    const cluster = afterFirst((each) => Object.assign(each, { minsize: 6, maxsize: 9 }))
    const { clusters } = await upgrade()
    expect(sizesOf(cluster)).toEqual([6, 9])
    expect(scales()).toEqual(['true 3 5'])
    expect(clusters[0]?.warning).toContain('someone else set its sizes to 6–9')
  })

  it('turns autoscaling off: it is left so', async () => {
    const cluster = afterFirst((each) =>
      Object.assign(each, { autoscalingenabled: false, minsize: undefined, maxsize: undefined }),
    )
    const { clusters } = await upgrade()
    expect(cluster.autoscalingenabled).toBe(false)
    expect(clusters[0]?.warning).toContain('autoscaling was turned off')
  })
})

describe('a cancel', () => {
  it('between the two calls puts the sizes back first, and says at once what to do if it is killed', async () => {
    const cluster = scaled(2, 5)
    const cancel = new AbortController()
    cloud.onCall = (command) => {
      if (command === 'queryAsyncJobResult' && cluster.state === 'Scaling') cancel.abort()
    }
    const { failure, clusters } = await upgrade({}, { signal: cancel.signal })
    expect(failure).toBeInstanceOf(Cancelled)
    expect(sizesOf(cluster)).toEqual([2, 5])
    expect(cluster.node.running?.image).toBe(NEW)
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerAfter: 'redeployed, sizes 2–5' })
    expect(log.warnings.join()).toMatch(
      /cancelled while.*putting its sizes back to 2–5.*killed.*minsize=2 maxsize=5/,
    )
  })

  it('between the two calls takes no longer than it may', async () => {
    const cluster = scaled(2, 5)
    cloud.fault(
      'scaleKubernetesCluster',
      NOTHING,
      ...Array.from({ length: 4 }, () => ({ kind: 'silence' }) as const),
    )
    const cancel = new AbortController()
    cloud.onCall = () => cluster.minsize === 3 && cancel.abort()
    const started = Date.now()
    const { failure, clusters } = await upgrade({}, { signal: cancel.signal, timing: { restore: 200 } })
    expect(Date.now() - started).toBeLessThan(1_500)
    expect(failure).toBeInstanceOf(Cancelled)
    expect(clusters[0]?.autoscalerAfter).toBe('SIZES NOT RESTORED: 3–5 instead of 2–5')
    expect(log.warnings.at(-1)).toContain(`Call scaleKubernetesCluster id=${cluster.id}`)
  })

  it('after the upgrade and before the redeploy starts none', async () => {
    const cluster = scaled(2, 5)
    const cancel = new AbortController()
    cloud.onCall = () => cluster.kubernetesversionid !== old.id && cancel.abort()
    const { failure, clusters } = await upgrade({}, { signal: cancel.signal })
    expect(failure).toBeInstanceOf(Cancelled)
    expect(scales()).toEqual([])
    expect(clusters).toHaveLength(1)
  })
})
