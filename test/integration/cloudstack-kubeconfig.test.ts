import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseKubeconfig } from '../../src/cloudstack/kubernetes.ts'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import { Cancelled } from '../../src/errors.ts'
import { ApiServerStandIn } from '../cloudstack/api-server.ts'
import { type Certificates, makeCertificates } from '../cloudstack/certificates.ts'
import { Lines, type RunOptions, runAgainst } from '../cloudstack/rig.ts'
import { CloudStackStandIn, type StandInCluster } from '../cloudstack/stand-in.ts'

const run = promisify(execFile)
const MANIFEST = fileURLToPath(new URL('../cloudstack/autoscaler.yaml', import.meta.url))
const DEPLOYMENT = '/apis/apps/v1/namespaces/kube-system/deployments/cluster-autoscaler'
const NEW = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.6'
const OLD = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.32.3'

let certificates: Certificates
let cloud: CloudStackStandIn
let kubernetes: ApiServerStandIn
let cluster: StandInCluster
let endpoint: string
let log: Lines
let dir: string

beforeAll(async () => {
  certificates = await makeCertificates()
  dir = await mkdtemp(join(tmpdir(), 'cks-iso-test-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
  log = new Lines()
  kubernetes = new ApiServerStandIn(certificates)
  await kubernetes.start()
  const old = cloud.addVersion('1.32.14')
  cloud.addVersion('1.33.13')
  cluster = cloud.addCluster('prod', old, { autoscalingenabled: true, minsize: 2, maxsize: 5 })
  cluster.kubeconfig = kubernetes.kubeconfig()
  kubernetes.objects.set(DEPLOYMENT, {
    kind: 'Deployment',
    metadata: { name: 'cluster-autoscaler', generation: 1 },
    spec: { template: { spec: { containers: [{ image: OLD }] } } },
    status: { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
  })
})
afterEach(async () => {
  await kubernetes.stop()
  await cloud.stop()
})

const upgrade = (more: CloudStackValues = {}, options: RunOptions = {}) => {
  const values = {
    'kubernetes-version': '1.33.13',
    clusters: 'prod',
    redeploy: 'kubeconfig',
    'autoscaler-manifest': MANIFEST,
  }
  return runAgainst(cloud, endpoint, { ...values, ...more }, { log, ...options })
}

describe('redeploy: kubeconfig', () => {
  it('applies the manifest with the sizes and the id of the cluster filled in, and waits for the rollout', async () => {
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerBefore: OLD, autoscalerAfter: NEW })
    expect(clusters[0]?.warning).toBeUndefined()
    expect(kubernetes.objects.get(DEPLOYMENT)).toMatchObject({
      spec: {
        template: {
          spec: {
            containers: [{ image: NEW, command: expect.arrayContaining([`--nodes=2:5:${cluster.id}`]) }],
          },
        },
      },
    })
    expect([...kubernetes.objects.keys()].toSorted()).toEqual([
      '/api/v1/namespaces/kube-system/serviceaccounts/cluster-autoscaler',
      DEPLOYMENT,
      '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-autoscaler',
      '/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-autoscaler',
    ])
    expect(log.text).toMatch(/0 of 1 new pods made[\s\S]*1 old pods ending[\s\S]*0 of 1 new pods available/)
  })

  it('leaves the sizes in CloudStack untouched', async () => {
    await upgrade()
    expect(cloud.changes.map(({ command }) => command)).toEqual(['upgradeKubernetesCluster'])
  })

  it('works where no autoscaler is running', async () => {
    kubernetes.objects.clear()
    expect((await upgrade()).clusters[0]).toMatchObject({ autoscalerBefore: 'none', autoscalerAfter: NEW })
  })

  it('takes a token in place of a client certificate', async () => {
    cluster.kubeconfig = kubernetes.kubeconfig({ token: kubernetes.token })
    expect((await upgrade()).clusters[0]?.warning).toBeUndefined()
  })

  it('takes the manifest from a URL', async () => {
    const text = await readFile(MANIFEST, 'utf8')
    const server = createServer((_request, response) => response.end(text))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (typeof address !== 'object' || address === null) throw new Error('no address')
    try {
      const source = `http://127.0.0.1:${address.port}/autoscaler.yaml`
      expect((await upgrade({ 'autoscaler-manifest': source })).clusters[0]?.autoscalerAfter).toBe(NEW)
    } finally {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  })

  it('takes the manifest out of the ISO', async () => {
    const tree = join(dir, 'tree')
    await mkdir(tree, { recursive: true })
    await copyFile(MANIFEST, join(tree, 'autoscaler.yaml'))
    const iso = join(dir, 'setup-v1.33.13-x86_64.iso')
    await run('xorriso', ['-as', 'mkisofs', '-quiet', '-J', '-R', '-V', 'CDROM', '-o', iso, tree], {
      timeout: 20_000,
    })
    expect((await upgrade({ 'autoscaler-manifest': iso })).clusters[0]?.autoscalerAfter).toBe(NEW)
    await rm(join(tree, 'autoscaler.yaml'))
    await writeFile(join(tree, 'network.yaml'), '')
    await run('xorriso', ['-as', 'mkisofs', '-quiet', '-J', '-R', '-V', 'CDROM', '-o', iso, tree], {
      timeout: 20_000,
    })
    const { failure } = await upgrade({ 'autoscaler-manifest': iso, clusters: 'all' })
    expect(failure?.message).toMatch(/autoscaler\.yaml/)
  })

  it('asks again when the connection to the API server breaks', async () => {
    kubernetes.drops.push(
      '/apis/apps/v1',
      '/clusterroles/cluster-autoscaler',
      '/deployments/cluster-autoscaler',
    )
    expect((await upgrade()).clusters[0]?.warning).toBeUndefined()
  })

  it('does nothing when autoscaling is off', async () => {
    Object.assign(cluster, { autoscalingenabled: false })
    await upgrade()
    expect(kubernetes.requests).toEqual([])
  })

  it('in a dry run names the manifest', async () => {
    const { clusters } = await upgrade({ 'dry-run': 'true' })
    expect(clusters[0]?.autoscalerAfter).toBe(`would apply ${MANIFEST}`)
    expect(kubernetes.requests).toEqual([])
  })
})

describe('a redeploy: kubeconfig that fails is a warning that names the cluster, and the upgrade a success', () => {
  const failing = async () => {
    const { clusters, failure } = await upgrade()
    expect(failure).toBeUndefined()
    expect(clusters[0]?.result).toBe('upgraded')
    expect(clusters[0]?.warning).toMatch(/^cluster prod: /)
    return clusters[0]?.warning ?? ''
  }

  it('where CloudStack has no kubeconfig', async () => {
    cluster.kubeconfig = undefined
    expect(await failing()).toContain('Config not found')
  })

  it('where the API server does not know the certificate', async () => {
    const { client } = await makeCertificates()
    cluster.kubeconfig = kubernetes.kubeconfig(client)
    expect(await failing()).toContain('the API server answered 401: Unauthorized')
    expect(kubernetes.objects.get(DEPLOYMENT)).toMatchObject({ metadata: { generation: 1 } })
  })

  it('where the API server cannot be reached', async () => {
    await kubernetes.stop()
    expect(await failing()).toMatch(/ECONNREFUSED/)
  })

  it('where the API server refuses an object', async () => {
    kubernetes.refusals.set('/clusterroles/cluster-autoscaler', {
      code: 403,
      message: 'clusterroles is forbidden',
    })
    expect(await failing()).toContain('403: clusterroles is forbidden')
  })

  it('where the API server knows a kind no more', async () => {
    kubernetes.refusals.set('/apis/apps/v1', { code: 404, message: 'not found' })
    expect(await failing()).toContain('the API server knows no Deployment of apps/v1')
  })

  it('where the rollout gets stuck', async () => {
    kubernetes.rollout = [
      {
        observedGeneration: 2,
        replicas: 2,
        updatedReplicas: 1,
        availableReplicas: 1,
        conditions: [
          { type: 'Progressing', reason: 'ProgressDeadlineExceeded', message: 'has timed out progressing.' },
        ],
      },
    ]
    expect(await failing()).toMatch(
      /v1.33.6 is applied, but Deployment cluster-autoscaler did not roll out: has timed out progressing/,
    )
  })

  it('and shows nothing of the kubeconfig', async () => {
    cluster.kubeconfig = 'users: [{name: x, user: {client-key-data: c2VjcmV0'
    const warning = await failing()
    expect(`${warning} ${log.text}`).not.toContain('c2VjcmV0')
    expect(warning).toContain('the kubeconfig of cluster prod: is no YAML')
  })
})

describe('a manifest that cannot be used stops the run before any cluster is touched', () => {
  it.each([
    ['that is missing', undefined, /autoscaler-manifest.*ENOENT/],
    ['without the placeholders', (text: string) => text.replace('<min>:', '1:'), /lacks <min>/],
    ['that is a web page', () => '<html></html>', /HTML/],
  ])('%s', async (_title, edit, message) => {
    const path = join(dir, 'manifest.yaml')
    await rm(path, { force: true })
    if (edit !== undefined) await writeFile(path, edit(await readFile(MANIFEST, 'utf8')))
    const { failure } = await upgrade({ 'autoscaler-manifest': path })
    expect(failure?.message).toMatch(message)
    expect(cloud.changes).toEqual([])
  })
})

it('a cancel during the rollout stops waiting; what is applied stays', async () => {
  kubernetes.rollout = [{ observedGeneration: 1 }]
  const cancel = new AbortController()
  const timer = setInterval(() => log.text.includes('not looked at by the controller') && cancel.abort(), 5)
  const { failure, clusters } = await upgrade({}, { signal: cancel.signal })
  clearInterval(timer)
  expect(failure).toBeInstanceOf(Cancelled)
  expect(clusters[0]).toMatchObject({ result: 'upgraded', autoscalerAfter: `${NEW}, not rolled out` })
  expect(kubernetes.objects.get(DEPLOYMENT)).toMatchObject({ generation2: true })
})

describe('a kubeconfig', () => {
  it('is read for its current context', () => {
    const access = parseKubeconfig(kubernetes.kubeconfig(), 'it')
    expect(access.server).toMatch(/^https:\/\/127\.0\.0\.1:/)
    expect(access.tls).toEqual({ ca: certificates.ca, ...certificates.client })
  })

  it.each([
    ['[]', 'is no kubeconfig'],
    ['a: b', 'names no API server for its current context'],
    [
      'current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: "https://x"}}]\nusers: [{name: u, user: {exec: {command: evil}}}]',
      'holds neither a client certificate with its key nor a token',
    ],
  ])('that cannot be used says why: %s', (text, why) => {
    expect(() => parseKubeconfig(text, 'it')).toThrow(`it: ${why}`)
  })
})
