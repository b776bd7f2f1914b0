import { createHash } from 'node:crypto'
import type { Releases } from './releases.ts'

/** The text of `git ls-remote` for repositories by `owner/name`: rows of `hash TAB name`, HEAD not among them. */
export type Refs = Readonly<Record<string, string>>

/** The repository that carries kubelet.service and 10-kubeadm.conf on its branch main. */
export const NODE_UNITS = 'shapeblue/cloudstack-nonoss'

/** The commit that the branch main of a repository is at. */
export function mainCommit(repository: string): string {
  return hashOf(`${repository} main`)
}

/** The references that each repository of our own upstream has: every release is a tag, and some others are too. */
export function ownRefs(releases: Releases): Refs {
  const v = (versions: readonly string[]) => versions.map((version) => `v${version}`)
  const tags: Readonly<Record<string, readonly string[]>> = {
    'kubernetes/kubernetes': v(releases.kubernetes),
    'kubernetes/autoscaler': [
      ...releases.autoscaler.map((version) => `cluster-autoscaler-${version}`),
      ...['addon-resizer-1.8.23', 'vertical-pod-autoscaler-1.4.1', 'vertical-pod-autoscaler/v1.4.1'],
      ...['cluster-autoscaler-chart-9.9.2', 'cluster-autoscaler-chart-9.50.1', 'cluster-autoscaler-1.0.beta'],
    ],
    'containernetworking/plugins': v(releases.cni),
    'kubernetes-sigs/cri-tools': v(releases.crictl),
    'etcd-io/etcd': [...v(releases.etcd), 'api/v3.7.0', 'client/pkg/v3.7.0'],
    'containerd/containerd': [...v(releases.containerd), 'api/v1.9.0'],
    'apache/cloudstack-kubernetes-provider': v(releases.ccm),
    'cloudstack/cloudstack-csi-driver': [...v(releases.csi), 'cloudstack-csi-3.1.0'],
    'projectcalico/calico': [...v(releases.calico), 'v9.99.0-0.dev'],
    'flannel-io/flannel': v(releases.flannel),
    'kubernetes/dashboard': [...v(releases.dashboard), 'kubernetes-dashboard-7.13.0'],
    'kubernetes-sigs/headlamp': [...v(releases.headlamp), 'headlamp-helm-0.99.0', 'headlamp-plugin-0.13.0'],
    [NODE_UNITS]: [],
  }
  return Object.fromEntries(
    Object.entries(tags).map(([repository, names]) => [repository, rowsOf(repository, names)]),
  )
}

/** The branch main, and every second tag annotated: then the commit stands in a row of its own. */
function rowsOf(repository: string, tags: readonly string[]): string {
  const rows = tags.toSorted().flatMap((tag, index) => {
    const commit = `${hashOf(`${repository} ${tag}`)}\trefs/tags/${tag}`
    return index % 2 === 0
      ? [commit]
      : [`${hashOf(`${repository} ${tag} object`)}\trefs/tags/${tag}`, `${commit}^{}`]
  })
  return [`${mainCommit(repository)}\trefs/heads/main`, ...rows, ''].join('\n')
}

function hashOf(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}
