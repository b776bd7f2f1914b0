import { readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { which } from '@actions/io'
import type { Arch } from '../../src/arch.ts'
import { hostArch } from '../../src/arch.ts'
import { noise, sha256, tarGz } from './bytes.ts'
import { corpusRefs, nearestCorpusFile } from './corpus-files.ts'
import { tinyElf } from './elf.ts'
import { mainCommit, NODE_UNITS, ownRefs } from './refs.ts'
import { isPrerelease, minorOf, newest, type Releases } from './releases.ts'

/** What is published under one URL. */
export interface Page {
  body(): Promise<Buffer>
  /** Images, by tag, that whoever reads this will pull. */
  images(): Promise<readonly string[]>
}

/** Bytes by which files are larger than they need to be. */
export interface Padding {
  /** Of kubeadm, kubelet and kubectl each. */
  readonly program?: number
  /** Of an archive of CNI plugins, crictl or etcd. */
  readonly archive?: number
}

export interface PublishOptions {
  readonly releases: Releases
  readonly corpus: string | undefined
  readonly padding: Padding
  /** Pushes an image unless it is there, and gives its digest. */
  readonly digestOf: (reference: string) => Promise<string>
}

type Pages = readonly (readonly [url: string, page: Page])[]

const ARCHES: readonly Arch[] = ['amd64', 'arm64']
const GITHUB = 'https://github.com'
const RAW = 'https://raw.githubusercontent.com'
const CCM = 'apache/cloudstack-kubernetes-provider'
const AUTOSCALER_TAG = /refs\/tags\/cluster-autoscaler-(\d+\.\d+\.\d+)$/gm
const CCM_TAG = /refs\/tags\/v(\d+\.\d+\.\d+[\w.-]*)$/gm

const CNI_PLUGINS = [
  ...['bandwidth', 'bridge', 'dhcp', 'dummy', 'firewall', 'host-device', 'host-local', 'ipvlan', 'loopback'],
  ...['macvlan', 'portmap', 'ptp', 'sbr', 'static', 'tap', 'tuning', 'vlan', 'vrf'],
]

/** Everything that is published, by its https URL. What a page holds is made when it is asked for. */
export async function publish(options: PublishOptions): Promise<ReadonlyMap<string, Page>> {
  const { releases } = options
  const refs = await refsOf(options)
  return new Map([
    ...releases.kubernetes.flatMap((version) => kubernetesRelease(version, options.padding)),
    ...versionFiles(releases.kubernetes),
    ...releases.cni.flatMap((version) => cniRelease(version, options.padding)),
    ...releases.crictl.flatMap((version) => crictlRelease(version, options.padding)),
    ...releases.etcd.flatMap((version) => etcdRelease(version, options.padding)),
    ...(await containerdReleases(releases.containerd)),
    ...nodeUnits(options),
    ...manifests(options, refs),
    ...Object.entries(refs).flatMap(([repository, rows]) => gitRepository(repository, rows)),
  ])
}

function kubernetesRelease(version: string, { program = 0 }: Padding): Pages {
  return ARCHES.flatMap((arch) =>
    ['kubeadm', 'kubelet', 'kubectl'].flatMap((name) => {
      const isKubeadm = name === 'kubeadm'
      const printed = isKubeadm ? kubeadmOutput(version) : { stdout: `Kubernetes v${version}\n` }
      const file = page(() => tinyElf(arch, printed, program), isKubeadm ? kubeadmImages(version) : [])
      return withSha256(`https://dl.k8s.io/release/v${version}/bin/linux/${arch}/${name}`, file, 'bare')
    }),
  )
}

function kubeadmImages(version: string): readonly string[] {
  return [
    ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'].map(
      (name) => `registry.k8s.io/${name}:v${version}`,
    ),
    ...['coredns/coredns:v1.12.0', 'pause:3.10', 'etcd:3.5.21-0'].map((name) => `registry.k8s.io/${name}`),
  ]
}

/** What `kubeadm config images list` prints on a machine without internet. */
function kubeadmOutput(version: string) {
  return {
    stdout: `${kubeadmImages(version).join('\n')}\n`,
    stderr: [
      'W0110 15:02:41.111111       1 version.go:104] could not fetch a Kubernetes version from the internet: unable to get URL "https://dl.k8s.io/release/stable-1.txt": dial tcp: lookup dl.k8s.io: no such host',
      `W0110 15:02:41.111112       1 version.go:105] falling back to the local client version: v${version}`,
      '',
    ].join('\n'),
  }
}

/** stable.txt and stable-<minor>.txt know releases only, latest.txt and latest-<minor>.txt pre-releases too. */
function versionFiles(versions: readonly string[]): Pages {
  const minors = [...new Set(versions.map(minorOf))]
  return ['', ...minors].flatMap((minor) => {
    const within = versions.filter((version) => minor === '' || minorOf(version) === minor)
    return ['stable', 'latest'].flatMap((name) => {
      const version = newest(within, { prereleases: name === 'latest' })
      const url = `https://dl.k8s.io/release/${[name, ...(minor === '' ? [] : [minor])].join('-')}.txt`
      return version === undefined ? [] : [[url, page(() => Buffer.from(`v${version}`))] as const]
    })
  })
}

function cniRelease(version: string, { archive = 0 }: Padding): Pages {
  return ARCHES.flatMap((arch) => {
    // Before 0.8 the archive had another name.
    const name = version.startsWith('0.7.')
      ? `cni-plugins-${arch}-v${version}.tgz`
      : `cni-plugins-linux-${arch}-v${version}.tgz`
    const file = archiveOf(
      CNI_PLUGINS.map((plugin) => `./${plugin}`),
      arch,
      version,
      archive,
    )
    return withSha256(assetUrl('containernetworking/plugins', version, name), file, 'named')
  })
}

function crictlRelease(version: string, { archive = 0 }: Padding): Pages {
  return ARCHES.flatMap((arch) => {
    const url = assetUrl('kubernetes-sigs/cri-tools', version, `crictl-v${version}-linux-${arch}.tar.gz`)
    return withSha256(url, archiveOf(['crictl'], arch, version, archive), 'bare')
  })
}

/** etcd publishes one file with the checksums of all its assets. */
function etcdRelease(version: string, { archive = 0 }: Padding): Pages {
  const assets = ARCHES.map((arch) => {
    const dir = `etcd-v${version}-linux-${arch}`
    const programs = ['etcd', 'etcdctl', 'etcdutl'].map((name) => `${dir}/${name}`)
    return [`${dir}.tar.gz`, archiveOf(programs, arch, version, archive)] as const
  })
  const sums = page(async () => {
    const own = assets.map(async ([name, file]) => `${sha256(await file.body())}  ${name}\n`)
    const foreign = ['darwin-arm64.zip', 'linux-ppc64le.tar.gz', 'windows-amd64.zip']
      .map((suffix) => `etcd-v${version}-${suffix}`)
      .map((name) => `${sha256(name)}  ${name}\n`)
    return Buffer.from([...(await Promise.all(own)), ...foreign].toSorted().join(''))
  })
  return [...assets, ['SHA256SUMS', sums] as const].map(([name, file]) => [
    assetUrl('etcd-io/etcd', version, name),
    file,
  ])
}

/** This machine's own containerd stands for every release of it, since it has to run here. */
async function containerdReleases(versions: readonly string[]): Promise<Pages> {
  const [containerd, ctr] = await Promise.all([which('containerd'), which('ctr')])
  if (containerd === '' || ctr === '') return []
  const file = page(async () =>
    tarGz({ 'bin/containerd': await readFile(containerd), 'bin/ctr': await readFile(ctr) }),
  )
  return versions.flatMap((version): Pages => {
    const name = `containerd-${version}-linux-${hostArch()}.tar.gz`
    const url = assetUrl('containerd/containerd', version, name)
    return [
      [url, file],
      [`${url}.sha256sum`, checksumOf(file, name)],
    ]
  })
}

/** Kubernetes carried the units itself until 1.17; since then they are on a branch, also found by its commit. */
function nodeUnits({ releases, corpus }: PublishOptions): Pages {
  const places = [
    ...['main', mainCommit(NODE_UNITS)].map((revision) => `${RAW}/${NODE_UNITS}/${revision}/cks`),
    ...releases.kubernetes
      .filter((version) => /^1\.1[0-7]\./.test(version))
      .map((version) => `${RAW}/kubernetes/kubernetes/v${version}/build/debs`),
  ]
  return places.flatMap((place) =>
    ['kubelet.service', '10-kubeadm.conf'].map((name) => {
      const read = async () => await nearest(corpus, `${RAW}/${NODE_UNITS}/main/cks/${name}`)
      return [`${place}/${name}`, page(async () => (await read())?.body ?? ownFile(name))] as const
    }),
  )
}

/** A manifest of our own, its URL by version, and the images that are pulled for it besides those it names. */
interface ManifestKind {
  readonly file: string
  readonly versions: readonly string[]
  url(version: string): string
  alsoPulled?(version: string): string
}

function manifests(options: PublishOptions, refs: Readonly<Record<string, string>>): Pages {
  const { releases } = options
  const kinds: readonly ManifestKind[] = [
    {
      file: 'autoscaler.yaml',
      versions: tagged(refs['kubernetes/autoscaler'], AUTOSCALER_TAG),
      url: (version) =>
        `${RAW}/kubernetes/autoscaler/cluster-autoscaler-${version}/cluster-autoscaler/cloudprovider/cloudstack/examples/cluster-autoscaler-standard.yaml`,
      alsoPulled: (version) => `registry.k8s.io/autoscaling/cluster-autoscaler:v${version}`,
    },
    {
      file: 'ccm.yaml',
      versions: [...new Set([...releases.ccm, ...tagged(refs[CCM], CCM_TAG)])],
      url: (version) => `${RAW}/${CCM}/v${version}/deployment.yaml`,
      alsoPulled: (version) => `${CCM}:v${version}`,
    },
    ...['manifest.yaml', 'snapshot-crds.yaml'].map((name) => ({
      file: name === 'manifest.yaml' ? 'csi.yaml' : name,
      versions: releases.csi,
      url: (version: string) => assetUrl('cloudstack/cloudstack-csi-driver', version, name),
    })),
    {
      file: 'calico.yaml',
      versions: releases.calico,
      url: (version) => `${RAW}/projectcalico/calico/v${version}/manifests/calico.yaml`,
    },
    {
      file: 'flannel.yaml',
      versions: releases.flannel,
      url: (version) => `${RAW}/flannel-io/flannel/v${version}/Documentation/kube-flannel.yml`,
    },
    {
      file: 'kubernetes-dashboard.yaml',
      versions: releases.dashboard,
      url: (version) => `${RAW}/kubernetes/dashboard/v${version}/aio/deploy/recommended.yaml`,
    },
    {
      file: 'headlamp.yaml',
      versions: releases.headlamp,
      url: (version) => `${RAW}/kubernetes-sigs/headlamp/v${version}/kubernetes-headlamp.yaml`,
      alsoPulled: (version) => `ghcr.io/headlamp-k8s/headlamp:v${version}`,
    },
    {
      file: 'network-pinned.yaml',
      versions: [''],
      url: () => 'https://manifests.example/network-pinned.yaml',
    },
  ]
  return kinds.flatMap((kind) =>
    kind.versions.map((version) => [kind.url(version), manifest(kind, version, options)] as const),
  )
}

function manifest(kind: ManifestKind, version: string, { corpus, digestOf }: PublishOptions): Page {
  const real = once(async () => await nearest(corpus, kind.url(version)))
  // The manifest of a pre-release still names the image of the release before it.
  const named = isPrerelease(version) ? newest(kind.versions, { prereleases: false }) : version
  const own = once(async () =>
    (await ownFile(`${kind.file}.tmpl`)).toString().replaceAll('VERSION', named ?? version),
  )
  return {
    body: once(async () => (await real())?.body ?? Buffer.from(await withDigests(await own(), digestOf))),
    images: once(async () => [
      ...((await real())?.images ?? imagesIn(await own())),
      ...(kind.alsoPulled === undefined ? [] : [kind.alsoPulled(version)]),
    ]),
  }
}

/** The images of a manifest of our own, without digests. */
function imagesIn(text: string): readonly string[] {
  return [...text.matchAll(/^[ -]*image: "?([^\s"@]+)/gm)].map(([, image = '']) => image)
}

/** Puts the digest of each image where the manifest says DIGEST. */
async function withDigests(text: string, digestOf: PublishOptions['digestOf']): Promise<string> {
  const pinned = [...text.matchAll(/([^\s"]+)@sha256:DIGEST/g)].map(([, image = '']) => image)
  const digests = new Map(
    await Promise.all([...new Set(pinned)].map(async (image) => [image, await digestOf(image)] as const)),
  )
  return text.replaceAll(/([^\s"]+)@sha256:DIGEST/g, (_, image: string) => `${image}@${digests.get(image)}`)
}

/** References by repository: our own, or those of the corpus. */
async function refsOf({ releases, corpus }: PublishOptions): Promise<Readonly<Record<string, string>>> {
  const own = Object.entries(ownRefs(releases))
  if (corpus === undefined) return Object.fromEntries(own)
  return Object.fromEntries(
    await Promise.all(
      own.map(async ([repository, rows]) => [repository, (await corpusRefs(corpus, repository)) ?? rows]),
    ),
  )
}

/** What `git ls-remote` reads by git's dumb HTTP protocol (gitprotocol-http(5)). */
function gitRepository(repository: string, rows: string): Pages {
  const url = `${GITHUB}/${repository}`
  const refs = page(() => Buffer.from(rows))
  if (!rows.includes('\trefs/heads/main')) return [[`${url}/info/refs`, refs]]
  return [
    [`${url}/info/refs`, refs],
    [`${url}/HEAD`, page(() => Buffer.from('ref: refs/heads/main\n'))],
  ]
}

function tagged(rows = '', pattern: RegExp): readonly string[] {
  return [...rows.matchAll(pattern)].map(([, version = '']) => version)
}

function archiveOf(names: readonly string[], arch: Arch, version: string, padding: number): Page {
  return page(() => {
    const programs = names.map((name) => {
      const stdout = `${posix.basename(name)} v${version}\n`
      return [name, tinyElf(arch, { stdout })] as const
    })
    const filler = padding === 0 ? {} : { 'README.md': noise(`${names[0]} ${version} ${arch}`, padding) }
    return tarGz({ ...Object.fromEntries(programs), ...filler })
  })
}

/** A file and its .sha256, which holds a bare hash or also the file's name. */
function withSha256(url: string, file: Page, form: 'bare' | 'named'): Pages {
  return [
    [url, file],
    [`${url}.sha256`, checksumOf(file, form === 'bare' ? undefined : posix.basename(url))],
  ]
}

function checksumOf(file: Page, name: string | undefined): Page {
  return page(async () => {
    const hash = sha256(await file.body())
    return Buffer.from(name === undefined ? hash : `${hash}  ${name}\n`)
  })
}

function assetUrl(repository: string, version: string, name: string): string {
  return `${GITHUB}/${repository}/releases/download/v${version}/${name}`
}

function page(body: () => Buffer | Promise<Buffer>, images: readonly string[] = []): Page {
  return { body: once(async () => await body()), images: async () => images }
}

async function nearest(corpus: string | undefined, url: string) {
  return corpus === undefined ? undefined : await nearestCorpusFile(corpus, url)
}

async function ownFile(name: string): Promise<Buffer> {
  return await readFile(join(import.meta.dirname, 'manifests', name))
}

/** Makes something when it is first asked for, and keeps it. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}
