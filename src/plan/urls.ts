import type { Arch } from '../arch.ts'
import type { Candidate, Candidates } from '../fetch/download.ts'
import { compareMinors, minorOf, type Version } from '../request/version.ts'

/** Where upstream publishes what goes onto the ISO. Pure: versions in, URLs out. */

const GITHUB = 'https://github.com'
const RAW = 'https://raw.githubusercontent.com'

/** Repositories whose tags or branches are read. */
export const REPOSITORIES = {
  autoscaler: `${GITHUB}/kubernetes/autoscaler`,
  cni: `${GITHUB}/containernetworking/plugins`,
  crictl: `${GITHUB}/kubernetes-sigs/cri-tools`,
  nodeUnits: `${GITHUB}/shapeblue/cloudstack-nonoss`,
} as const

/** The text file that names the newest patch of a minor, such as `v1.33.13`. */
export function stableVersionUrl(minor: string): string {
  return `https://dl.k8s.io/release/stable-${minor}.txt`
}

export function kubernetesBinary(
  name: 'kubeadm' | 'kubelet' | 'kubectl',
  version: Version,
  arch: Arch,
): Candidates {
  return withSha256(`https://dl.k8s.io/release/v${version}/bin/linux/${arch}/${name}`)
}

/** Before 0.8 the archive went by another name. */
export function cniPlugins(version: Version, arch: Arch): Candidates {
  const release = `${REPOSITORIES.cni}/releases/download/v${version}`
  return [
    ...withSha256(`${release}/cni-plugins-linux-${arch}-v${version}.tgz`),
    ...withSha256(`${release}/cni-plugins-${arch}-v${version}.tgz`),
  ]
}

export function crictl(version: Version, arch: Arch): Candidates {
  return withSha256(
    `${REPOSITORIES.crictl}/releases/download/v${version}/crictl-v${version}-linux-${arch}.tar.gz`,
  )
}

export function etcd(version: Version, arch: Arch): Candidates {
  const release = `${GITHUB}/etcd-io/etcd/releases/download/v${version}`
  return [{ url: `${release}/etcd-v${version}-linux-${arch}.tar.gz`, checksumUrl: `${release}/SHA256SUMS` }]
}

export function containerd(version: Version, arch: Arch): Candidates {
  const url = `${GITHUB}/containerd/containerd/releases/download/v${version}/containerd-${version}-linux-${arch}.tar.gz`
  return [{ url, checksumUrl: `${url}.sha256sum` }]
}

/**
 * kubelet.service and 10-kubeadm.conf. Kubernetes itself carried them until 1.17.
 * @param commit of the repository that carries them since, so that a moved branch cannot change a build
 */
export function nodeUnit(name: string, kubernetes: Version, commit: string): Candidates {
  const url =
    compareMinors(minorOf(kubernetes), '1.18') < 0
      ? `${RAW}/kubernetes/kubernetes/v${kubernetes}/build/debs/${name}`
      : `${RAW}/shapeblue/cloudstack-nonoss/${commit}/cks/${name}`
  return [{ url }]
}

export function autoscalerManifest(version: Version): Candidates {
  const path = 'cluster-autoscaler/cloudprovider/cloudstack/examples/cluster-autoscaler-standard.yaml'
  return [{ url: `${RAW}/kubernetes/autoscaler/cluster-autoscaler-${version}/${path}` }]
}

export function autoscalerImage(version: Version): string {
  return `registry.k8s.io/autoscaling/cluster-autoscaler:v${version}`
}

export function ccmManifest(version: Version): Candidates {
  return [{ url: `${RAW}/apache/cloudstack-kubernetes-provider/v${version}/deployment.yaml` }]
}

export function ccmImage(version: Version): string {
  return `apache/cloudstack-kubernetes-provider:v${version}`
}

export function csiManifest(name: 'manifest.yaml' | 'snapshot-crds.yaml', version: Version): Candidates {
  return [{ url: `${GITHUB}/cloudstack/cloudstack-csi-driver/releases/download/v${version}/${name}` }]
}

/** Manifests of the add-ons that are known by name. */
export const ADD_ON_MANIFESTS = {
  calico: (version: Version): Candidates => [
    { url: `${RAW}/projectcalico/calico/v${version}/manifests/calico.yaml` },
  ],
  flannel: (version: Version): Candidates => [
    { url: `${RAW}/flannel-io/flannel/v${version}/Documentation/kube-flannel.yml` },
  ],
  'kubernetes-dashboard': (version: Version): Candidates => [
    { url: `${RAW}/kubernetes/dashboard/v${version}/aio/deploy/recommended.yaml` },
  ],
  headlamp: (version: Version): Candidates => [
    { url: `${RAW}/kubernetes-sigs/headlamp/v${version}/kubernetes-headlamp.yaml` },
  ],
} as const

function withSha256(url: string): readonly [Candidate] {
  return [{ url, checksumUrl: `${url}.sha256` }]
}
