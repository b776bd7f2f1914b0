import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hostArch } from '../../src/arch.ts'
import { DEFAULTS } from '../../src/defaults.ts'
import { formatOf } from '../../src/fetch/content.ts'
import { type Candidates, Downloads } from '../../src/fetch/download.ts'
import { listRefs } from '../../src/fetch/git.ts'
import { startContainerd } from '../../src/images/containerd.ts'
import { parseReference, repositoryOf } from '../../src/images/reference.ts'
import { imagesOf } from '../../src/manifests/images.ts'
import { parseManifest } from '../../src/manifests/parse.ts'
import { newestOfMinor, newestUpToMinor, releasesOf } from '../../src/plan/releases.ts'
import * as urls from '../../src/plan/urls.ts'
import { mirroredUrl, parseMirrors, registryMirrors } from '../../src/request/mirrors.ts'
import { withWorkspace } from '../../src/workspace.ts'
import { containerds } from '../containerds.ts'
import { corpusDir } from '../corpus.ts'
import { runGroup } from '../log.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const run = promisify(execFile)
const log = { info: () => {}, notice: () => {}, warning: () => {}, debug: () => {}, group: runGroup }
const never = new AbortController().signal

let upstream: Upstream
let dir: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'upstream-'))
  upstream = await startUpstream()
})

afterEach(() => {
  upstream.restore()
  upstream.clearRequests()
})

afterAll(async () => {
  await upstream?.close()
  await rm(dir, { recursive: true })
})

/** Asks for an https URL as a build with these mirrors does. */
async function ask(url: string, from: Upstream = upstream, init: RequestInit = {}): Promise<Response> {
  return await fetch(mirroredUrl(parseMirrors(from.mirrors), url), {
    signal: AbortSignal.timeout(10_000),
    ...init,
  })
}

async function textOf(url: string, from: Upstream = upstream): Promise<string> {
  const answer = await ask(url, from)
  expect(answer.status, url).toBe(200)
  return await answer.text()
}

/** Downloads with the product's own code, which verifies the published checksum. */
async function download(candidates: Candidates): Promise<string> {
  const mirrors = parseMirrors(upstream.mirrors)
  const downloads = new Downloads({ mirrors, log, signal: never, pauses: [] })
  const path = join(dir, `file-${Math.random()}`)
  await downloads.file({ what: 'a file', input: 'some-version', candidates }, path)
  return path
}

const INDEXES = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
]

/** The digest that the registry has for an image; null when it does not have it. */
async function digestOf(image: string): Promise<string | null> {
  const { digest, tag = '', ...rest } = parseReference(image, 'a test')
  const url = `http://${upstream.registry.host}/v2/${repositoryOf(rest)}/manifests/${digest ?? tag}`
  const answer = await fetch(url, { method: 'HEAD', headers: { accept: INDEXES.join(', ') } })
  return answer.headers.get('docker-content-digest')
}

describe('the programs', () => {
  it('run on this machine: kubeadm lists its images on stdout and warns on stderr', async () => {
    const kubeadm = await download(urls.kubernetesBinary('kubeadm', '1.33.13', hostArch()))
    await chmod(kubeadm, 0o755)

    const { stdout, stderr } = await run(kubeadm, ['config', 'images', 'list'])

    expect(stdout.split('\n')).toEqual([
      'registry.k8s.io/kube-apiserver:v1.33.13',
      'registry.k8s.io/kube-controller-manager:v1.33.13',
      'registry.k8s.io/kube-scheduler:v1.33.13',
      'registry.k8s.io/kube-proxy:v1.33.13',
      'registry.k8s.io/coredns/coredns:v1.12.0',
      'registry.k8s.io/pause:3.10',
      'registry.k8s.io/etcd:3.5.21-0',
      '',
    ])
    expect(stderr).toMatch(/^W0110 15:02:41\.\d+ +1 version\.go:104\] could not fetch a Kubernetes version/)
  })

  it('are of the architecture asked for', async () => {
    for (const arch of ['amd64', 'arm64'] as const) {
      const kubelet = await readFile(await download(urls.kubernetesBinary('kubelet', '1.36.1', arch)))
      expect(formatOf(kubelet)).toEqual({ kind: 'elf', arch })
    }
  })
})

describe('the archives', () => {
  it.each([
    ['CNI plugins', urls.cniPlugins('1.9.1', 'amd64'), './loopback'],
    ['CNI plugins by their old name', urls.cniPlugins('0.7.5', 'amd64'), './bridge'],
    ['crictl', urls.crictl('1.33.0', 'arm64'), 'crictl'],
    ['etcd', urls.etcd('3.5.21', 'arm64'), 'etcd-v3.5.21-linux-arm64/etcd'],
  ])('of %s match their published checksum and hold their programs', async (_, candidates, member) => {
    const { stdout } = await run('tar', ['tzf', await download(candidates)])
    expect(stdout.split('\n')).toContain(member)
  })

  it.skipIf(containerds.length === 0)('of containerd holds the one of this machine', async () => {
    const archive = await download(urls.containerd(DEFAULTS.containerd, hostArch()))
    const { stdout } = await run('tar', ['tzf', archive])
    expect(stdout.trim().split('\n')).toEqual(['bin/containerd', 'bin/ctr'])
  })
})

describe('git', () => {
  const refs = async (repository: string) =>
    await withWorkspace(tmpdir(), never, async ({ programs, signal }) => {
      const mirrors = parseMirrors(upstream.mirrors)
      return await listRefs(repository, [], { programs, signal, log, mirrors, input: 'x', pauses: [] })
    })

  it('reads the tags, in which releases hide among charts, pre-releases and peeled rows', async () => {
    const listed = await refs(urls.REPOSITORIES.autoscaler)
    const releases = releasesOf(listed, 'refs/tags/cluster-autoscaler-')
    const found = ['1.31', '1.33', '1.34', '1.37'].map((minor) => newestOfMinor(releases, minor))
    expect(found).toEqual(['1.31.5', '1.33.6', '1.34.10', undefined])
    expect(listed.map(({ name }) => name)).toContain('refs/tags/cluster-autoscaler-1.33.7-beta.1')
    expect(listed.map(({ name }) => name)).toContain('refs/tags/cluster-autoscaler-chart-9.50.1')
    expect(newestUpToMinor(releasesOf(await refs(urls.REPOSITORIES.crictl), 'refs/tags/v'), '1.35')).toBe(
      '1.34.0',
    )
  })

  it('reads a repository with and without .git, peeled rows and HEAD included', async () => {
    const lines = await Promise.all(
      ['', '.git'].map(async (suffix) => {
        const url = mirroredUrl(parseMirrors(upstream.mirrors), `${urls.REPOSITORIES.cni}${suffix}`)
        return (await run('git', ['ls-remote', url], { timeout: 10_000 })).stdout
      }),
    )
    expect(lines[0]).toBe(lines[1])
    expect(lines[0]).toMatch(/^[0-9a-f]{40}\tHEAD\n[0-9a-f]{40}\trefs\/heads\/main\n/)
    expect(lines[0]).toContain('refs/tags/v1.10.0\n')
    expect(lines[0]).toMatch(/\trefs\/tags\/v\S+\^\{\}\n/)
  })

  it('names the commit by which the units are fetched', async () => {
    const main = (await refs(urls.REPOSITORIES.nodeUnits)).find(({ name }) => name === 'refs/heads/main')
    const [unit] = urls.nodeUnit('kubelet.service', '1.33.13', main?.commit ?? '')
    const [older] = urls.nodeUnit('10-kubeadm.conf', '1.17.17', '')
    expect(await textOf(unit?.url ?? '')).toContain('ExecStart=/usr/bin/kubelet')
    expect(await textOf(older?.url ?? '')).toContain('ExecStart=/usr/bin/kubelet')
    expect((await ask(`${unit?.url.replace(/[0-9a-f]{40}/, 'f'.repeat(40))}`)).status).toBe(404)
  })
})

describe('the manifests', () => {
  const published = [
    ...urls.autoscalerManifest('1.33.6'),
    ...urls.ccmManifest(DEFAULTS.ccm),
    ...urls.csiManifest('manifest.yaml', DEFAULTS.csi),
    ...urls.csiManifest('snapshot-crds.yaml', DEFAULTS.csi),
    ...urls.ADD_ON_MANIFESTS.calico(DEFAULTS.calico),
    ...urls.ADD_ON_MANIFESTS.flannel(DEFAULTS.flannel),
    ...urls.ADD_ON_MANIFESTS['kubernetes-dashboard'](DEFAULTS.kubernetesDashboard),
    ...urls.ADD_ON_MANIFESTS.headlamp(DEFAULTS.headlamp),
    { url: 'https://manifests.example/network-pinned.yaml' },
  ].map(({ url }) => url)

  it('name images that the registry has, those pinned by digest too', async () => {
    for (const url of published) {
      const text = await textOf(url)
      expect(text, url).not.toMatch(/VERSION|DIGEST/)
      for (const image of imagesOf(parseManifest(text, url))) {
        expect(await digestOf(image), image).toMatch(/^sha256:/)
      }
    }
  })

  it('have the defect of the real CSI manifest', async () => {
    const [csi] = urls.csiManifest('manifest.yaml', DEFAULTS.csi)
    const { notices } = parseManifest(await textOf(csi?.url ?? ''), 'manifest.yaml')
    expect(notices).toEqual([expect.stringContaining('---')])
  })

  it('of a pre-release names the image of the release before it', async () => {
    const [ccm] = urls.ccmManifest('1.3.0-rc1')
    expect(await textOf(ccm?.url ?? '')).toContain('cloudstack-kubernetes-provider:v1.2.0')
  })

  it('are a 404 at versions that do not exist', async () => {
    for (const { url } of [...urls.ccmManifest('9.9.9'), ...urls.autoscalerManifest('1.33.99')]) {
      expect((await ask(url)).status).toBe(404)
    }
  })
})

describe.skipIf(containerds.length === 0)('the registry', () => {
  it('gives ctr an image of a release for any of its platforms', { timeout: 30_000 }, async () => {
    await textOf('https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubeadm')
    const mirrors = registryMirrors(parseMirrors(upstream.mirrors))
    const [binaries] = containerds
    if (binaries === undefined) throw new Error('no containerd')
    await withWorkspace(tmpdir(), never, async ({ dir: work, programs }) => {
      const containerd = await startContainerd({ dir: join(work, 'c'), programs, binaries, mirrors, log })
      for (const platform of ['linux/arm64', 'linux/386']) {
        const flags = ['--platform', platform, ...containerd.fetchFlags, '--hosts-dir', containerd.hostsDir]
        const options = { what: 'fetch', next: 'look', timeout: 20_000 }
        await containerd.ctr(['content', 'fetch', ...flags, 'registry.k8s.io/pause:3.10'], options)
      }
    })
    expect(upstream.counts().blobs).toBeGreaterThanOrEqual(5)
  })

  it('keeps what a test pushed itself', async () => {
    const name = 'registry.k8s.io/kube-proxy:v1.36.1'
    const { digest } = await upstream.registry.push(name, { mark: 'moved' })
    await textOf('https://dl.k8s.io/release/v1.36.1/bin/linux/amd64/kubeadm')
    expect(await digestOf(name)).toBe(digest)
  })
})

describe('the log', () => {
  const url =
    'https://github.com/kubernetes-sigs/cri-tools/releases/download/v1.33.0/crictl-v1.33.0-linux-amd64.tar.gz'

  it('tells of requests by their original URLs, redirects and all', async () => {
    const bytes = (await (await ask(url)).arrayBuffer()).byteLength
    await textOf('https://dl.k8s.io/release/stable-1.33.txt')
    await ask('https://dl.k8s.io/release/stable-1.99.txt')
    const asset = url.replace('github.com', 'release-assets.githubusercontent.com')
    expect(upstream.requests).toEqual([
      { method: 'GET', url, status: 302, bytes: 0 },
      { method: 'GET', url: asset, status: 200, bytes },
      { method: 'GET', url: 'https://dl.k8s.io/release/stable-1.33.txt', status: 302, bytes: 0 },
      { method: 'GET', url: 'https://cdn.dl.k8s.io/release/stable-1.33.txt', status: 200, bytes: 8 },
      { method: 'GET', url: 'https://dl.k8s.io/release/stable-1.99.txt', status: 404, bytes: 14 },
    ])
    expect(upstream.counts()).toEqual({ files: 2, listings: 0, manifests: 0, blobs: 0 })
  })
})

describe('faults', () => {
  const url = 'https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubectl'

  it('replace a file, with any status', async () => {
    upstream.put(url, '<html>moved</html>')
    upstream.put('https://manifests.example/mine.yaml', 'kind: List\n')
    upstream.put(`${url}.sha256`, 'gone', { status: 410, headers: { 'x-reason': 'test' } })
    expect(await textOf(url)).toBe('<html>moved</html>')
    expect(await textOf('https://manifests.example/mine.yaml')).toBe('kind: List\n')
    expect((await ask(`${url}.sha256`)).headers.get('x-reason')).toBe('test')
    upstream.restore()
    expect((await ask('https://manifests.example/mine.yaml')).status).toBe(404)
  })

  it('last for as many requests as asked for', async () => {
    upstream.fault(url, { kind: 'answer', status: 503, headers: { 'retry-after': '1' } }, 1)
    const answer = await ask(url)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await ask(url)).status).toBe(200)
  })

  it('cut a body that was announced whole', async () => {
    upstream.fault(url, { kind: 'cut', bytes: 10 })
    const answer = await ask(url)
    expect(Number(answer.headers.get('content-length'))).toBeGreaterThan(100)
    await expect(answer.arrayBuffer()).rejects.toThrow()
    expect(upstream.requests.at(-1)?.bytes).toBe(10)
  })

  it.each([
    ['without an answer', { kind: 'stall' }],
    ['within the body', { kind: 'stall', bytes: 10 }],
  ] as const)('fall silent %s', async (_, fault) => {
    upstream.fault(url, fault)
    const read = ask(url, upstream, { signal: AbortSignal.timeout(200) }).then((answer) => answer.text())
    await expect(read).rejects.toThrow(/timeout/)
  })

  it('slow a body down', async () => {
    upstream.fault(url, { kind: 'slow', bytesPerSecond: 1_000 })
    const start = performance.now()
    const { byteLength } = await (await ask(url)).arrayBuffer()
    expect(performance.now() - start).toBeGreaterThan(byteLength * 0.5)
  })

  it('reach git listings too', async () => {
    upstream.fault('https://github.com/kubernetes/autoscaler/info/refs', { kind: 'answer', status: 502 }, 1)
    const from = mirroredUrl(parseMirrors(upstream.mirrors), urls.REPOSITORIES.autoscaler)
    await expect(run('git', ['ls-remote', from], { timeout: 10_000 })).rejects.toThrow(/502/)
  })
})

describe('options', () => {
  it('set the releases and the sizes', async () => {
    const own = await startUpstream({ releases: { kubernetes: ['1.40.0'] }, padding: { program: 1_000_000 } })
    try {
      expect(await textOf('https://dl.k8s.io/release/stable.txt', own)).toBe('v1.40.0')
      const answer = await ask('https://dl.k8s.io/release/v1.40.0/bin/linux/arm64/kubelet', own)
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(1_000_000)
      expect((await ask('https://dl.k8s.io/release/stable-1.33.txt', own)).status).toBe(404)
    } finally {
      await own.close()
    }
  })

  it('put a corpus in the place of own files, tags and images', async () => {
    const corpus = join(dir, 'corpus')
    const write = async (name: string, text: string) => {
      await mkdir(dirname(join(corpus, name)), { recursive: true })
      await writeFile(join(corpus, name), text)
    }
    const ccm = 'raw.githubusercontent.com/apache/cloudstack-kubernetes-provider'
    await write(`${ccm}/v1.2.0/deployment.yaml`, 'kind: Deployment\n')
    await write(`${ccm}/v1.2.0/deployment.yaml.images`, 'quay.io/corpus/ccm:v1\n')
    await write('raw.githubusercontent.com/other/v1/x.yaml', 'kind: Pod\n')
    const hash = 'a'.repeat(40)
    await write('git/apache/cloudstack-kubernetes-provider.refs', `${hash}\trefs/tags/v1.2.5\n`)

    const own = await startUpstream({ corpus })
    try {
      // Of the newest lower version where the corpus has not the one that is tagged.
      for (const version of ['1.2.0', '1.2.5']) {
        expect(await textOf(`https://${ccm}/v${version}/deployment.yaml`, own)).toBe('kind: Deployment\n')
      }
      expect((await ask(`https://${ccm}/v9.9.9/deployment.yaml`, own)).status).toBe(404)
      expect(await textOf('https://raw.githubusercontent.com/other/v1/x.yaml', own)).toBe('kind: Pod\n')
      const refs = 'https://github.com/apache/cloudstack-kubernetes-provider/info/refs'
      expect(await textOf(refs, own)).toBe(`${hash}\trefs/tags/v1.2.5\n`)
      const image = await fetch(`http://${own.registry.host}/v2/quay.io/corpus/ccm/tags/list`)
      expect(await image.json()).toMatchObject({ tags: ['v1'] })
    } finally {
      await own.close()
    }
  })

  it.skipIf(corpusDir === undefined)('serve the real manifests at every version that is tagged', async () => {
    const own = await startUpstream({ corpus: corpusDir ?? '' })
    try {
      for (const version of ['1.31.5', '1.33.6', '1.33.4']) {
        const [autoscaler] = urls.autoscalerManifest(version)
        expect(await textOf(autoscaler?.url ?? '', own)).toContain('csistoragecapacities')
      }
      const [ccm] = urls.ccmManifest('1.3.0-rc1')
      expect(await textOf(ccm?.url ?? '', own)).toContain('cloudstack-kubernetes-provider:v1.2.0')
    } finally {
      await own.close()
    }
  })
})

it('is gone after close', async () => {
  const own = await startUpstream()
  await own.close()
  await expect(fetch(own.base)).rejects.toThrow()
  await expect(fetch(`http://${own.registry.host}/v2/`)).rejects.toThrow()
})
