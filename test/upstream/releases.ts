import { compare, parse } from 'semver'
import { DEFAULTS } from '../../src/defaults.ts'

/** The versions of each project that the upstream has published, without `v`. Others are a 404. */
export interface Releases {
  readonly kubernetes: readonly string[]
  readonly cni: readonly string[]
  readonly crictl: readonly string[]
  readonly etcd: readonly string[]
  readonly containerd: readonly string[]
  readonly autoscaler: readonly string[]
  readonly ccm: readonly string[]
  readonly csi: readonly string[]
  readonly calico: readonly string[]
  readonly flannel: readonly string[]
  readonly dashboard: readonly string[]
  readonly headlamp: readonly string[]
}

/**
 * What is published unless a test says otherwise. In it lie the traps of the real lists: .10 beside .9, pre-releases,
 * a minor without an autoscaler (1.37) or crictl (1.35), CNI plugins from before their archive was renamed.
 */
export const RELEASES: Releases = {
  kubernetes: [
    ...['1.17.17', '1.31.13', '1.31.14', '1.32.10', '1.33.9', '1.33.10', '1.33.13'],
    ...['1.34.2', '1.35.2', '1.36.0', '1.36.1', '1.37.0-rc.1'],
  ],
  cni: ['0.7.5', '0.8.7', '1.7.1', '1.9.1', '1.10.0', '1.11.0-rc1'],
  crictl: ['1.17.0', '1.31.1', '1.32.0', '1.33.0', '1.34.0', '1.36.0'],
  etcd: ['3.5.21', '3.6.4'],
  containerd: [DEFAULTS.containerd],
  autoscaler: [
    ...['1.31.4', '1.31.5', '1.32.7', '1.33.4', '1.33.6', '1.33.7-beta.1'],
    ...['1.34.9', '1.34.10', '1.35.2', '1.36.1'],
  ],
  ccm: ['1.0.0', '1.1.1', DEFAULTS.ccm, '1.3.0-rc1'],
  csi: [DEFAULTS.csi],
  calico: ['3.29.3', DEFAULTS.calico],
  flannel: [DEFAULTS.flannel],
  dashboard: [DEFAULTS.kubernetesDashboard],
  headlamp: ['0.40.1', DEFAULTS.headlamp],
}

/** The newest version, or the newest that is no pre-release; undefined when there is none. */
export function newest(
  versions: readonly string[],
  { prereleases }: { readonly prereleases: boolean },
): string | undefined {
  return versions
    .filter((version) => prereleases || !isPrerelease(version))
    .toSorted(compare)
    .at(-1)
}

export function isPrerelease(version: string): boolean {
  return (parse(version)?.prerelease.length ?? 0) > 0
}

/** `1.33` of `1.33.13`. */
export function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}
