/** The parts of the job that a setting belongs to: each is a command of the command line. */
export type Part = 'register' | 'upgrade'

/**
 * One thing that a user can set: an input of upgrade/action.yml and an option of the commands, under one name. Both
 * are held to this table by tests, as is the table in docs/upgrade.md.
 */
export interface CloudStackSetting {
  readonly name: string
  readonly description: string
  /** What an absent value means. */
  readonly default: string
  readonly required?: true
  readonly parts: readonly Part[]
  /**
   * Where the command line takes it from when the option is absent. A secret has no option at all: others could read
   * it in the list of processes.
   */
  readonly variable?: string
  readonly secret?: true
}

const BOTH = ['register', 'upgrade'] as const

export const CLOUDSTACK_SETTINGS = [
  {
    name: 'endpoint',
    description: 'URL of the CloudStack API, such as https://cloud.example/client/api.',
    default: '',
    required: true,
    parts: BOTH,
    variable: 'CLOUDSTACK_ENDPOINT',
  },
  {
    name: 'api-key',
    description: 'API key of the CloudStack user. Registering takes a root admin.',
    default: '',
    required: true,
    parts: BOTH,
    variable: 'CLOUDSTACK_API_KEY',
    secret: true,
  },
  {
    name: 'secret-key',
    description: 'Secret key of the CloudStack user.',
    default: '',
    required: true,
    parts: BOTH,
    variable: 'CLOUDSTACK_SECRET_KEY',
    secret: true,
  },
  {
    name: 'ca-file',
    description: 'PEM file of the CA that signed the certificate of the endpoint. Empty: the CAs of Node.',
    default: '',
    parts: BOTH,
  },
  {
    name: 'zones',
    description:
      'Zones, by name or id, a line each or separated by commas: where the ISO is registered, and where clusters: all looks. Empty: registered once for all zones; clusters of all zones.',
    default: '',
    parts: BOTH,
  },
  {
    name: 'kubernetes-version',
    description: 'Kubernetes release of the ISO, such as 1.33.13.',
    default: '',
    required: true,
    parts: BOTH,
  },
  {
    name: 'version-name',
    description:
      'Name of the Kubernetes version in CloudStack. Registering: empty makes it of release and architecture; a name of its own lets several ISOs of one release stand side by side. Upgrading: chooses among versions of the same release.',
    default: '',
    parts: BOTH,
  },
  {
    name: 'iso-url',
    description: 'URL from which CloudStack downloads the ISO. Empty: nothing is registered.',
    default: '',
    parts: ['register'],
  },
  {
    name: 'iso-checksum',
    description: 'SHA-256 of the ISO, 64 hexadecimal digits, also as {SHA-256}digits.',
    default: '',
    parts: ['register'],
  },
  {
    name: 'arch',
    description: 'Architecture of the ISO: amd64 (x86_64) or arm64 (aarch64).',
    default: 'amd64',
    parts: ['register'],
  },
  {
    name: 'min-cpu',
    description: 'Fewest CPUs of a node.',
    default: '2',
    parts: ['register'],
  },
  {
    name: 'min-memory',
    description: 'Smallest memory of a node, in MB.',
    default: '2048',
    parts: ['register'],
  },
  {
    name: 'direct-download',
    description: 'true: the ISO bypasses the secondary storage, as edge zones need it.',
    default: 'false',
    parts: ['register'],
  },
  {
    name: 'clusters',
    description:
      'Clusters to upgrade, by name or id, a line each or separated by commas; or all, for every cluster that runs an older release of the same or the previous minor. Empty: none.',
    default: '',
    parts: ['upgrade'],
  },
  {
    name: 'parallel',
    description: 'How many clusters are upgraded at once.',
    default: '1',
    parts: ['upgrade'],
  },
  {
    name: 'redeploy',
    description:
      'How the autoscaler of an upgraded cluster is deployed anew: scale (by CloudStack: a size is moved by one and back), kubeconfig (by the API server of the cluster, which must be reachable) or none.',
    default: 'scale',
    parts: ['upgrade'],
  },
  {
    name: 'autoscaler-manifest',
    description:
      'For redeploy: kubeconfig: the ISO (a file that ends in .iso), or its autoscaler.yaml, a file or a URL.',
    default: '',
    parts: ['upgrade'],
  },
  {
    name: 'register-timeout',
    description: 'Longest wait for CloudStack to download the ISO, in minutes.',
    default: '60',
    parts: ['register'],
  },
  {
    name: 'upgrade-timeout',
    description: 'Longest wait for the upgrade of a cluster, in minutes.',
    default: '120',
    parts: ['upgrade'],
  },
  {
    name: 'redeploy-timeout',
    description: 'Longest wait for a step of the redeploy, in minutes.',
    default: '15',
    parts: ['upgrade'],
  },
  {
    name: 'dry-run',
    description: 'true: only say what would happen.',
    default: 'false',
    parts: BOTH,
  },
] as const satisfies readonly CloudStackSetting[]

export type CloudStackSettingName = (typeof CLOUDSTACK_SETTINGS)[number]['name']

/** Values as the user wrote them. Absent and blank mean the default. */
export type CloudStackValues = Partial<Readonly<Record<CloudStackSettingName, string>>>

/** The table as what it is an example of: optional properties can be asked for. */
export function cloudStackSettings(
  part?: Part,
): readonly (CloudStackSetting & { name: CloudStackSettingName })[] {
  const all: readonly (CloudStackSetting & { name: CloudStackSettingName })[] = CLOUDSTACK_SETTINGS
  return part === undefined ? all : all.filter(({ parts }) => parts.includes(part))
}
