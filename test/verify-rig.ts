import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import type { Arch } from '../src/arch.ts'
import { fileNames } from '../src/images/file-names.ts'
import { lookupName, parseReference, repositoryOf } from '../src/images/reference.ts'
import { buildTree } from '../src/iso/tree.ts'
import { findIsoWriter, writeIso } from '../src/iso/writer.ts'
import { formatRecord, type IsoRecord } from '../src/record/record.ts'
import type { Workspace } from '../src/workspace.ts'
import { keptLog } from './log.ts'
import { sha256, tarGz } from './upstream/bytes.ts'
import { tinyElf } from './upstream/elf.ts'
import { type Blob, type BuiltImage, buildImage, type ImageSpec } from './upstream/images.ts'

const EPOCH = 1_700_000_000

/** The members of an archive, by name, in order. */
export type Members = Map<string, Buffer>

/** An image on a hand-made ISO. */
export interface IsoArchive {
  reference: string
  digest: string
  /** Under docker/. */
  fileName: string
  members: Members
}

/** The content of an ISO before it is written, for a test to break one thing in it. */
export interface Draft {
  /** By path, without versions.txt and docker/. */
  readonly files: Map<string, Buffer>
  readonly archives: IsoArchive[]
  /** Changes files that are made from the rest: whole archives, versions.txt. */
  readonly finish: ((files: Map<string, Buffer>) => void)[]
}

const CONTROL_PLANE = [
  'registry.k8s.io/kube-apiserver:v1.33.1',
  'registry.k8s.io/kube-controller-manager:v1.33.1',
  'registry.k8s.io/kube-scheduler:v1.33.1',
  'registry.k8s.io/kube-proxy:v1.33.1',
  'registry.k8s.io/coredns/coredns:v1.12.0',
  'registry.k8s.io/pause:3.10',
  'registry.k8s.io/etcd:3.5.21-0',
]

/** A manifest with one pod that runs the images. */
export function podOf(name: string, ...images: readonly string[]): string {
  const containers = images.map((image, index) => `    - name: c${index}\n      image: ${image}\n`).join('')
  return `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\nspec:\n  containers:\n${containers}`
}

/** An image whose reference pins it, with what is found under the digest. */
export async function pinnedImage(name: string): Promise<{ reference: string; image: BuiltImage }> {
  const image = await buildImage(name)
  return { reference: `${name}@${image.top.digest}`, image }
}

/** A good ISO for CloudStack 4.22: small, with one image pinned by digest. */
export async function draftIso(arch: Arch): Promise<Draft> {
  const program = tinyElf(arch, { stdout: 'Kubernetes\n' })
  const { reference: pinned, image: pinnedContent } = await pinnedImage('quay.io/cilium/cilium:v1.17.1')
  const [dashboard, ccm, autoscaler] = [
    'docker.io/kubernetesui/dashboard:v2.7.0',
    'docker.io/apache/cloudstack-kubernetes-provider:v1.2.0',
    'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0',
  ]
  const files = new Map<string, Buffer>([
    ['k8s/kubeadm', program],
    ['k8s/kubelet', program],
    ['k8s/kubectl', program],
    [`cni/cni-plugins-${arch}.tgz`, await tarGz({ './bridge': program, './LICENSE': Buffer.from('text') })],
    [`cri-tools/crictl-linux-${arch}.tar.gz`, await tarGz({ crictl: program })],
    [
      'etcd/etcd-linux-amd64.tar.gz',
      await tarGz({ 'etcd-v3/etcd': program, 'etcd-v3/README.md': Buffer.from('#') }),
    ],
    ['kubelet.service', Buffer.from('[Service]\nExecStart=/opt/bin/kubelet\n')],
    ['10-kubeadm.conf', Buffer.from('[Service]\nExecStart=\nExecStart=/opt/bin/kubelet $KUBELET_ARGS\n')],
    ['network.yaml', Buffer.from(podOf('network', pinned))],
    ['dashboard.yaml', Buffer.from(podOf('dashboard', 'kubernetesui/dashboard:v2.7.0'))],
    ['provider.yaml', Buffer.from(podOf('provider', ccm))],
    [
      'autoscaler.yaml',
      Buffer.from(`${podOf('autoscaler', autoscaler)}      args: ['--nodes=<min>:<max>:<cluster-id>']\n`),
    ],
  ])
  const draft: Draft = { files, archives: [], finish: [] }
  for (const reference of [...CONTROL_PLANE, dashboard, ccm, autoscaler]) {
    draft.archives.push(await archiveOf(reference, arch))
  }
  draft.archives.push(archiveFrom(pinned, pinnedContent, arch))
  return draft
}

/** The archive of an image, as the build makes it. */
export async function archiveOf(reference: string, arch: Arch, spec: ImageSpec = {}): Promise<IsoArchive> {
  return archiveFrom(reference, await buildImage(reference, spec), arch)
}

function archiveFrom(written: string, image: BuiltImage, arch: Arch): IsoArchive {
  const reference = parseReference(written, 'test')
  const { domain, path, tag } = reference
  const names = [
    lookupName(reference),
    ...(reference.digest === undefined ? [] : [`${repositoryOf({ domain, path })}:${tag}`]),
  ]
  const members: Members = new Map([
    ['oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')],
    ['index.json', layoutIndex(names, image.top)],
  ])
  for (const blob of blobsFor(image, arch)) members.set(blobName(blob.digest), blob.data)
  const [fileName = ''] = fileNames([reference])
  return { reference: written, digest: image.top.digest, fileName, members }
}

/** The index.json that brings an image under names. */
export function layoutIndex(names: readonly string[], { mediaType, digest, data }: Blob): Buffer {
  const manifests = names.map((name) => ({
    mediaType,
    digest,
    size: data.length,
    annotations: { 'io.containerd.image.name': name },
  }))
  return Buffer.from(JSON.stringify({ schemaVersion: 2, manifests }))
}

function blobsFor(image: BuiltImage, arch: Arch): readonly Blob[] {
  const manifest = image.manifests.get(`linux/${arch}`) ?? [...image.manifests.values()][0]
  if (manifest === undefined) throw new Error('the image has no manifest')
  const { config, layers }: { config: { digest: string }; layers: { digest: string }[] } = JSON.parse(
    manifest.data.toString(),
  )
  const needed = [config, ...layers].map(({ digest }) => digest)
  return [image.top, manifest, ...image.blobs.filter(({ digest }) => needed.includes(digest))]
}

export function blobName(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`
}

/** The blobs of an archive by role. */
export function rolesIn({ members, digest }: IsoArchive, arch: Arch): { config: string; layers: string[] } {
  const index: { manifests: { digest: string; platform: { architecture: string } }[] } = read(members, digest)
  const own = index.manifests.find(({ platform }) => platform.architecture === arch)?.digest ?? ''
  const manifest: { config: { digest: string }; layers: { digest: string }[] } = read(members, own)
  return { config: manifest.config.digest, layers: manifest.layers.map(({ digest: layer }) => layer) }
}

function read<T>(members: Members, digest: string): T {
  return JSON.parse(String(members.get(blobName(digest))))
}

export async function tarOf(members: Members): Promise<Buffer> {
  const archive = pack()
  for (const [name, data] of members) archive.entry({ name, mtime: new Date(0) }, data)
  archive.finalize()
  return await buffer(archive)
}

/** Lays the draft out and writes it, with a versions.txt that tells of it as it is. */
export async function writeDraft(draft: Draft, arch: Arch, workspace: Workspace): Promise<string> {
  const { programs, dir } = workspace
  const files = new Map(draft.files)
  const record: IsoRecord = {
    platform: `linux/${arch}`,
    cloudstack: '4.22',
    epoch: EPOCH,
    versions: { kubernetes: '1.33.1' },
    files: [...files].map(([path, content]) => ({ path, sha256: sha256(content), source: 'none' })),
    images: draft.archives.map(({ reference, digest, fileName }) => ({
      reference,
      digest,
      path: `docker/${fileName}`,
    })),
  }
  files.set('versions.txt', Buffer.from(formatRecord(record)))
  for (const { fileName, members } of draft.archives) files.set(`docker/${fileName}`, await tarOf(members))
  for (const change of draft.finish) change(files)

  const sources = join(dir, 'sources')
  const placed: { path: string; source: string }[] = []
  for (const [path, content] of files) {
    const source = join(sources, createHash('sha256').update(path).digest('hex'))
    await mkdir(dirname(source), { recursive: true })
    await writeFile(source, content)
    placed.push({ path, source })
  }
  const tree = join(dir, 'tree')
  await buildTree(tree, placed)
  const output = join(dir, 'test.iso')
  const log = keptLog()
  await writeIso({ writer: await findIsoWriter(programs, log), tree, output, epoch: EPOCH, programs, log })
  return output
}
