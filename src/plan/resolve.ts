import { join } from 'node:path'
import { type Arch, hostArch, machineOf } from '../arch.ts'
import { Failure } from '../errors.ts'
import type { Candidates, Downloads } from '../fetch/download.ts'
import { listRefs, type RemoteRef } from '../fetch/git.ts'
import type { Log } from '../log.ts'
import type { BuildRequest, ManifestRequest } from '../request/request.ts'
import { minorOf, parseVersion, type Version } from '../request/version.ts'
import { togetherTelling } from '../together.ts'
import type { Workspace } from '../workspace.ts'
import { lockPlan } from './lock.ts'
import type { FileSource, Plan, PlannedBinary, PlannedManifest } from './plan.ts'
import { newestOfMinor, newestUpToMinor, releasesOf } from './releases.ts'
import * as urls from './urls.ts'

/** What resolving borrows. */
export interface ResolveContext {
  readonly workspace: Workspace
  readonly downloads: Downloads
  readonly log: Log
}

/**
 * Turns a request into a plan: looks up the newest releases that were asked for. Network, but metadata only.
 * @throws Failure naming the input with which the user can name the version
 */
export async function resolvePlan(request: BuildRequest, context: ResolveContext): Promise<Plan> {
  const { kubernetes: wanted } = request
  const minor = wanted.kind === 'minor' ? wanted.minor : minorOf(wanted.version)
  const [autoscaler, kubernetes, cni, crictl, unitCommit] = await togetherTelling(
    'versions cannot be found out',
    [
      request.autoscaler === undefined
        ? newestAutoscaler(minor, request, context)
        : Promise.resolve(request.autoscaler),
      wanted.kind === 'exact' ? Promise.resolve(wanted.version) : newestPatch(minor, context),
      request.cni === undefined ? newestCni(request, context) : Promise.resolve(request.cni),
      request.crictl === undefined ? nearestCrictl(minor, request, context) : Promise.resolve(request.crictl),
      request.lock === undefined ? commitOfUnits(request, context) : Promise.resolve('as locked'),
    ],
  )
  if (minorOf(autoscaler) !== minor) {
    context.log.warning(
      `autoscaler-version ${autoscaler} is for Kubernetes ${minorOf(autoscaler)}, but the ISO is for ${kubernetes}: the autoscaler is only tested with its own minor.`,
    )
  }
  const plan = assemblePlan(request, { kubernetes, autoscaler, cni, crictl, unitCommit }, hostArch())
  return request.lock === undefined ? plan : lockPlan(plan, request.lock)
}

/** The versions that a request leaves open. */
export interface ResolvedVersions {
  readonly kubernetes: Version
  readonly autoscaler: Version
  readonly cni: Version
  readonly crictl: Version
  /** Commit that kubelet.service and 10-kubeadm.conf are taken from. */
  readonly unitCommit: string
}

/** The plan of a request, once every version is known. Pure. */
export function assemblePlan(request: BuildRequest, resolved: ResolvedVersions, host: Arch): Plan {
  const { arch, etcd } = request
  const { kubernetes, autoscaler, cni, crictl } = resolved
  return {
    versions: {
      kubernetes,
      'cni-plugins': cni,
      crictl,
      ...(etcd === undefined ? {} : { etcd }),
      autoscaler,
      ccm: request.ccm,
      csi: request.csi,
      network: nameOf(request.network),
      dashboard: nameOf(request.dashboard),
    },
    arch,
    cloudstack: request.cloudstack,
    name: `${request.buildName ?? `setup-v${kubernetes}`}-${machineOf(arch)}`,
    binaries: [
      ...(['kubeadm', 'kubelet', 'kubectl'] as const).map(
        (name): PlannedBinary => ({
          what: name,
          input: 'kubernetes-version',
          content: 'elf',
          paths: [`k8s/${name}`],
          source: fromUrl(urls.kubernetesBinary(name, kubernetes, arch)),
        }),
      ),
      {
        what: 'the CNI plugins',
        input: 'cni-version',
        content: 'gzip',
        paths: [`cni/cni-plugins-${arch}.tgz`],
        source: fromUrl(urls.cniPlugins(cni, arch)),
      },
      {
        what: 'crictl',
        input: 'crictl-version',
        content: 'gzip',
        paths: [`cri-tools/crictl-linux-${arch}.tar.gz`],
        source: fromUrl(urls.crictl(crictl, arch)),
      },
      ...(etcd === undefined ? [] : [etcdArchive(etcd, arch)]),
      ...['kubelet.service', '10-kubeadm.conf'].map(
        (name): PlannedBinary => ({
          what: name,
          input: 'kubernetes-version',
          content: 'unit',
          paths: [name],
          source: fromUrl(urls.nodeUnit(name, kubernetes, resolved.unitCommit)),
        }),
      ),
    ],
    hostKubeadm: {
      what: `kubeadm for this machine (${host})`,
      input: 'kubernetes-version',
      source: fromUrl(urls.kubernetesBinary('kubeadm', kubernetes, host)),
    },
    manifests: [
      chosenManifest('network', request.network),
      chosenManifest('dashboard', request.dashboard),
      {
        role: 'autoscaler',
        what: 'the cluster autoscaler manifest',
        input: 'autoscaler-version',
        source: fromUrl(urls.autoscalerManifest(autoscaler)),
      },
      {
        role: 'ccm',
        what: 'the cloud controller manager manifest',
        input: 'ccm-version',
        source: fromUrl(urls.ccmManifest(request.ccm)),
      },
      {
        role: 'csi',
        what: 'the CSI driver manifest',
        input: 'csi-version',
        source: fromUrl(urls.csiManifest('manifest.yaml', request.csi)),
      },
      {
        role: 'snapshot-crds',
        what: 'the volume snapshot CRDs',
        input: 'csi-version',
        source: fromUrl(urls.csiManifest('snapshot-crds.yaml', request.csi)),
      },
    ],
    extraImages: request.extraImages,
  }
}

/** etcd nodes open the archive by its amd64 name whatever their architecture, so it stands under both names. */
function etcdArchive(version: Version, arch: Arch): PlannedBinary {
  return {
    what: 'etcd',
    input: 'etcd-version',
    content: 'gzip',
    paths:
      arch === 'amd64'
        ? ['etcd/etcd-linux-amd64.tar.gz']
        : [`etcd/etcd-linux-${arch}.tar.gz`, 'etcd/etcd-linux-amd64.tar.gz'],
    source: fromUrl(urls.etcd(version, arch)),
  }
}

function chosenManifest(role: 'network' | 'dashboard', request: ManifestRequest): PlannedManifest {
  return { role, what: `the ${role} manifest`, input: role, source: sourceOf(request) }
}

/** Nodes apply dashboard.yaml whatever is in it and stop when it is missing, so without a dashboard it holds little. */
const NO_DASHBOARD = 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: kubernetes-dashboard\n'

function sourceOf(request: ManifestRequest): FileSource {
  if (request.kind === 'none') return { kind: 'text', text: NO_DASHBOARD }
  if (request.kind === 'file') return { kind: 'file', path: request.path, name: `file:${request.path}` }
  return fromUrl(
    request.kind === 'url' ? [{ url: request.url }] : urls.ADD_ON_MANIFESTS[request.name](request.version),
  )
}

/** How a chosen manifest is named in versions.txt. */
function nameOf(request: ManifestRequest): string {
  switch (request.kind) {
    case 'add-on':
      return `${request.name}@${request.version}`
    case 'url':
      return request.url
    case 'file':
      return request.path
    case 'none':
      return 'none'
  }
}

function fromUrl(candidates: Candidates): FileSource {
  return { kind: 'url', candidates }
}

async function newestPatch(minor: string, context: ResolveContext): Promise<Version> {
  const url = urls.stableVersionUrl(minor)
  const request = {
    what: `the newest patch of Kubernetes ${minor}`,
    input: 'kubernetes-version',
    candidates: [{ url }],
  } as const
  const { text } = await context.downloads.text(request, join(context.workspace.dir, `stable-${minor}.txt`))
  const version = text.trim()
  if (!/^v\d+\.\d+\.\d+$/.test(version) || minorOf(version.slice(1)) !== minor) {
    throw new Failure(
      `${url} should name a release of Kubernetes ${minor}, but says ${JSON.stringify(version.slice(0, 80))}`,
      `Set kubernetes-version to an exact release, such as ${minor}.1.`,
    )
  }
  return parseVersion('kubernetes-version', version)
}

async function newestAutoscaler(
  minor: string,
  request: BuildRequest,
  context: ResolveContext,
): Promise<Version> {
  const input = 'autoscaler-version'
  const refs = await tags(
    urls.REPOSITORIES.autoscaler,
    `cluster-autoscaler-${minor}.*`,
    input,
    request,
    context,
  )
  const newest = newestOfMinor(releasesOf(refs, 'refs/tags/cluster-autoscaler-'), minor)
  if (newest === undefined) {
    throw new Failure(
      `There is no cluster-autoscaler release for ${minor} (no tag cluster-autoscaler-${minor}.* at ${urls.REPOSITORIES.autoscaler})`,
      `Check kubernetes-version; if Kubernetes ${minor} is right, set autoscaler-version to a release of another minor. A mirror of that repository may also lag behind, or answer with a page of its own.`,
    )
  }
  return newest
}

async function newestCni(request: BuildRequest, context: ResolveContext): Promise<Version> {
  const [newest] = releasesOf(
    await tags(urls.REPOSITORIES.cni, 'v*', 'cni-version', request, context),
    'refs/tags/v',
  )
  return newest ?? fail('CNI plugins', urls.REPOSITORIES.cni, 'cni-version')
}

async function nearestCrictl(
  minor: string,
  request: BuildRequest,
  context: ResolveContext,
): Promise<Version> {
  const refs = await tags(urls.REPOSITORIES.crictl, 'v*', 'crictl-version', request, context)
  const version =
    newestUpToMinor(releasesOf(refs, 'refs/tags/v'), minor) ??
    fail('crictl', urls.REPOSITORIES.crictl, 'crictl-version')
  if (minorOf(version) !== minor) {
    context.log.notice(
      `crictl has no release for ${minor} yet: taking ${version}. Set crictl-version for another.`,
    )
  }
  return version
}

async function commitOfUnits(request: BuildRequest, context: ResolveContext): Promise<string> {
  const repository = urls.REPOSITORIES.nodeUnits
  const branch = 'refs/heads/main'
  const refs = await refsOf(repository, branch, undefined, request, context)
  const commit = refs.find(({ name }) => name === branch)?.commit
  if (commit === undefined) {
    throw new Failure(
      `${repository} has no branch main, from which kubelet.service and 10-kubeadm.conf come`,
      'If a mirror stands for it, let it carry that branch (input mirrors).',
    )
  }
  return commit
}

async function tags(
  repository: string,
  pattern: string,
  input: string,
  request: BuildRequest,
  context: ResolveContext,
): Promise<readonly RemoteRef[]> {
  return await refsOf(repository, `refs/tags/${pattern}`, input, request, context)
}

async function refsOf(
  repository: string,
  pattern: string,
  input: string | undefined,
  request: BuildRequest,
  { workspace, log }: ResolveContext,
): Promise<readonly RemoteRef[]> {
  return await listRefs(repository, [pattern], {
    ...workspace,
    log,
    mirrors: request.mirrors,
    ...(input === undefined ? {} : { input }),
  })
}

function fail(what: string, repository: string, input: string): never {
  throw new Failure(
    `There is no release of ${what} among the tags of ${repository}`,
    `Set ${input} to a release. A mirror of that repository may lag behind, or answer with a page of its own.`,
  )
}
