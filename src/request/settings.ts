import { DEFAULTS } from '../defaults.ts'

/**
 * One thing that a user can set: an input of the action and an option of the command line, under one name. The
 * command line is generated from this table; tests hold action.yml and the README to it.
 */
export interface Setting {
  readonly name: string
  readonly description: string
  /** What an absent value means; '' where the description says what is found out at run time. */
  readonly default: string
}

export const BUILD_SETTINGS = [
  {
    name: 'kubernetes-version',
    description:
      'Kubernetes to put on the ISO: a release (1.33.13, v1.33.13, refs/tags/v1.33.13), or a minor (1.33) for its newest patch. Empty in a workflow run for a tag: that tag.',
    default: '',
  },
  {
    name: 'cni-version',
    description: 'Release of the CNI plugins. Empty: the newest.',
    default: '',
  },
  {
    name: 'crictl-version',
    description:
      'Release of crictl. Empty: the newest of the Kubernetes minor, else of the nearest lower minor.',
    default: '',
  },
  {
    name: 'network',
    description: `Manifest of the pod network: calico[@version], flannel[@version], a URL or a file. Without a version: calico ${DEFAULTS.calico}, flannel ${DEFAULTS.flannel}.`,
    default: 'calico',
  },
  {
    name: 'dashboard',
    description: `Manifest of the dashboard: kubernetes-dashboard[@version], headlamp[@version], a URL, a file, or none. Without a version: kubernetes-dashboard ${DEFAULTS.kubernetesDashboard}, headlamp ${DEFAULTS.headlamp}. Empty: kubernetes-dashboard up to CloudStack 4.22, headlamp from 4.23 on.`,
    default: '',
  },
  {
    name: 'autoscaler-version',
    description: 'Release of the cluster autoscaler. Empty: the newest of the Kubernetes minor.',
    default: '',
  },
  {
    name: 'ccm-version',
    description: 'Release of the CloudStack cloud controller manager (cloudstack-kubernetes-provider).',
    default: `v${DEFAULTS.ccm}`,
  },
  {
    name: 'csi-version',
    description: 'Release of the CloudStack CSI driver.',
    default: `v${DEFAULTS.csi}`,
  },
  {
    name: 'etcd-version',
    description: 'Release of etcd, for clusters with etcd nodes of their own. Empty: no etcd on the ISO.',
    default: '',
  },
  {
    name: 'arch',
    description: 'Architecture of the nodes: amd64 (x86_64) or arm64 (aarch64).',
    default: 'amd64',
  },
  {
    name: 'extra-images',
    description: 'Further images to pack, one reference a line: those that an operator pulls by itself.',
    default: '',
  },
  {
    name: 'build-name',
    description:
      'Start of the file names: <build-name>-x86_64.iso or -aarch64.iso. Empty: setup-v<Kubernetes version>.',
    default: '',
  },
  {
    name: 'output-dir',
    description: 'Directory for the ISO and its versions.txt; made when it is missing.',
    default: '.',
  },
  {
    name: 'cloudstack-version',
    description:
      'CloudStack release that will use the ISO; decides how the dashboard is laid out and what the ISO is checked for.',
    default: DEFAULTS.cloudstack,
  },
  {
    name: 'lock',
    description:
      'versions.txt of an earlier build, or its ISO, as a path or URL: that ISO is built again, byte for byte, and anything that has changed since is refused. What it says stands for the inputs left empty.',
    default: '',
  },
  {
    name: 'verify',
    description:
      'Whether to look at the finished ISO as a node will, and keep it only when it is sound: true or false.',
    default: 'true',
  },
  {
    name: 'mirrors',
    description:
      'Where to fetch from instead, a line each: <https URL prefix or registry host> <replacement URL>. The longest prefix wins; covers downloads, git and registries.',
    default: '',
  },
] as const satisfies readonly Setting[]

export type BuildSettingName = (typeof BUILD_SETTINGS)[number]['name']

/** Values as the user wrote them. Absent and blank mean the default. */
export type SettingValues = Partial<Readonly<Record<BuildSettingName, string>>>

/** Inputs of the action alone: what a runner offers and a command line does not. */
export const ACTION_SETTINGS = [
  {
    name: 'cache',
    description:
      'Where to keep programs and image archives for later runs: service (the cache of GitHub Actions), tool-cache (the disk of a machine that stays), false (nowhere), or true: the service on runners of GitHub, the tool cache on self-hosted ones.',
    default: 'true',
  },
  {
    name: 'previous',
    description:
      'versions.txt of an earlier build, or its ISO, as a path or URL, to compare with: for the output changed and the summary. Nothing there counts as a first build.',
    default: '',
  },
  {
    name: 'upload-artifact',
    description:
      'Whether to upload the ISO, its checksum files, its versions.txt and its bill of materials as artifacts, each as it is: true or false.',
    default: 'true',
  },
  {
    name: 'artifact-name',
    description: 'Name of the artifacts instead of the name of the ISO without .iso.',
    default: '',
  },
  {
    name: 'retention-days',
    description: "Days that GitHub keeps the artifacts, 1 to 400. Empty: the repository's own setting.",
    default: '',
  },
] as const satisfies readonly Setting[]

/** What the action hands to later steps. */
export const OUTPUTS = [
  { name: 'iso-path', description: 'Path of the ISO.' },
  { name: 'iso-name', description: 'File name of the ISO.' },
  { name: 'iso-size', description: 'Size of the ISO in bytes.' },
  { name: 'iso-sha256', description: 'SHA-256 of the ISO, 64 hexadecimal digits.' },
  { name: 'versions-path', description: 'Path of the versions.txt beside the ISO.' },
  { name: 'sbom-path', description: 'Path of the bill of materials, CycloneDX in JSON, beside the ISO.' },
  {
    name: 'changed',
    description: 'Whether the ISO differs from previous: true or false; empty without previous.',
  },
  { name: 'kubernetes-version', description: 'Kubernetes on the ISO, such as 1.33.13.' },
  { name: 'autoscaler-version', description: 'Release of the cluster autoscaler.' },
  { name: 'ccm-version', description: 'Release of the cloud controller manager.' },
  { name: 'csi-version', description: 'Release of the CSI driver.' },
  { name: 'cni-version', description: 'Release of the CNI plugins.' },
  { name: 'crictl-version', description: 'Release of crictl.' },
  { name: 'etcd-version', description: 'Release of etcd; empty when there is none.' },
  { name: 'network', description: 'Pod network: calico@version, flannel@version, or its URL or file.' },
  { name: 'dashboard', description: 'Dashboard: add-on@version, its URL or file, or none.' },
  { name: 'artifact-id', description: 'Id of the artifact that holds the ISO; empty without an upload.' },
  { name: 'artifact-url', description: 'Where people download that artifact.' },
  { name: 'cache-hits', description: 'JSON list of what was looked for in the cache: name, hit.' },
  { name: 'images', description: 'JSON list of the images: reference, digest, file, size in bytes.' },
] as const

export type OutputName = (typeof OUTPUTS)[number]['name']
