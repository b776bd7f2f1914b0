/** A file that the scripts of a node open. */
export interface ContractFile {
  /** A path on the ISO; a `*` stands for anything within one name, as in the shell. */
  readonly path: string
  readonly content: 'elf' | 'archive' | 'manifest' | 'text'
  /** What a node without it does; an `error` stops the cluster's creation or upgrade. */
  readonly missing: 'error' | 'notice'
  readonly why: string
}

/** What the nodes of a line of CloudStack releases read. */
export interface NodeContract {
  /** The first release of the line, as MAJOR.MINOR. */
  readonly since: string
  readonly files: readonly ContractFile[]
  /** A manifest that cluster creation applies instead of dashboard.yaml, where it is there. */
  readonly dashboardInstead?: string
}

/** Placeholders that a node replaces in autoscaler.yaml (apache/cloudstack, autoscale-kube-cluster). */
export const AUTOSCALER_PLACEHOLDERS: readonly string[] = ['<cluster-id>', '<min>', '<max>']

const program = (name: string): ContractFile => ({
  path: `k8s/${name}`,
  content: 'elf',
  missing: 'error',
  why: `nodes copy ${name} from there and run it`,
})

const FILES: readonly ContractFile[] = [
  program('kubeadm'),
  program('kubelet'),
  program('kubectl'),
  {
    path: 'cni/cni-plugins-*64.tgz',
    content: 'archive',
    missing: 'error',
    why: 'nodes hand what this pattern matches to one tar command, which takes one archive',
  },
  {
    path: 'cri-tools/crictl-linux-*64.tar.gz',
    content: 'archive',
    missing: 'error',
    why: 'nodes hand what this pattern matches to one tar command, which takes one archive',
  },
  {
    path: 'kubelet.service',
    content: 'text',
    missing: 'error',
    why: 'nodes install it as the unit of kubelet',
  },
  {
    path: '10-kubeadm.conf',
    content: 'text',
    missing: 'error',
    why: "nodes install it as kubeadm's part of the unit of kubelet",
  },
  {
    path: 'network.yaml',
    content: 'manifest',
    missing: 'error',
    why: 'the first control node applies it, and its script stops when it cannot',
  },
  {
    path: 'dashboard.yaml',
    content: 'manifest',
    missing: 'error',
    why: 'creation or upgrade of a cluster applies it by this name, and its script stops when it cannot',
  },
  {
    path: 'autoscaler.yaml',
    content: 'manifest',
    missing: 'notice',
    why: 'clusters cannot be scaled by load without it',
  },
  {
    path: 'provider.yaml',
    content: 'manifest',
    missing: 'notice',
    why: 'services of type LoadBalancer get no address without it',
  },
]

/** By release, oldest first. A line's contract holds until the next line begins. */
export const NODE_CONTRACTS: readonly NodeContract[] = [
  { since: '4.0', files: FILES },
  { since: '4.23', files: FILES, dashboardInstead: 'headlamp.yaml' },
]

/** The contract of a CloudStack release, MAJOR.MINOR. */
export function contractOf(cloudstack: string): NodeContract {
  const [oldest, ...later] = NODE_CONTRACTS
  if (oldest === undefined) throw new Error('there is no node contract')
  return later.findLast(({ since }) => !isBefore(cloudstack, since)) ?? oldest
}

function isBefore(a: string, b: string): boolean {
  const [[majorA = 0, minorA = 0], [majorB = 0, minorB = 0]] = [parts(a), parts(b)]
  return majorA < majorB || (majorA === majorB && minorA < minorB)
}

function parts(release: string): readonly number[] {
  return release.split('.').map(Number)
}

/** Whether a path is one that the pattern of a contract means. */
export function matches(pattern: string, path: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('[^/]*')}$`).test(path)
}
