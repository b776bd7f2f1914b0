import type { Arch } from '../arch.ts'
import type { Candidates } from '../fetch/download.ts'
import type { Version } from '../request/version.ts'

/** Where a file comes from: the web, the user's own disk, or this program. */
export type FileSource =
  | { readonly kind: 'url'; readonly candidates: Candidates }
  | {
      readonly kind: 'file'
      readonly path: string
      /** What versions.txt calls it: `file:` and a path. */
      readonly name: string
      /** SHA-256 that an earlier build recorded, 64 hexadecimal digits: no other bytes will do. */
      readonly lockedSha256?: string
    }
  | { readonly kind: 'text'; readonly text: string }

interface PlannedFile {
  /** What it is, for messages. */
  readonly what: string
  /** The input that decides it. */
  readonly input: string
  readonly source: FileSource
}

/** A program, an archive, or a systemd unit that goes onto the ISO. */
export interface PlannedBinary extends PlannedFile {
  readonly content: 'elf' | 'gzip' | 'unit'
  /** Where it stands on the ISO; under several names where nodes ask for several. */
  readonly paths: readonly [string, ...string[]]
}

/** What the node scripts call each manifest. They open dashboard.yaml whatever dashboard is in it. */
export const MANIFEST_PATHS = {
  network: 'network.yaml',
  dashboard: 'dashboard.yaml',
  autoscaler: 'autoscaler.yaml',
  ccm: 'provider.yaml',
  csi: 'manifest.yaml',
  'snapshot-crds': 'snapshot-crds.yaml',
} as const

export type ManifestRole = keyof typeof MANIFEST_PATHS

/** A manifest that nodes apply. */
export interface PlannedManifest extends PlannedFile {
  readonly role: ManifestRole
}

/** The name of a version in versions.txt; the order is the order there. */
export const VERSION_NAMES = [
  'kubernetes',
  'cni-plugins',
  'crictl',
  'etcd',
  'autoscaler',
  'ccm',
  'csi',
  'network',
  'dashboard',
] as const

export type VersionName = (typeof VERSION_NAMES)[number]

/** Every version and URL of a build, named exactly. Plain data. */
export interface Plan {
  readonly versions: Readonly<Partial<Record<VersionName, string>>> & {
    readonly kubernetes: Version
    readonly autoscaler: Version
    readonly ccm: Version
  }
  readonly arch: Arch
  /** MAJOR.MINOR of the CloudStack release. */
  readonly cloudstack: string
  /** `<build-name>-<x86_64|aarch64>`: what the ISO and the files beside it are named by. */
  readonly name: string
  readonly binaries: readonly PlannedBinary[]
  /** A kubeadm that runs on this machine; the ISO's own one where that does. */
  readonly hostKubeadm: PlannedFile
  readonly manifests: readonly PlannedManifest[]
  /** Further images, as normalised references. */
  readonly extraImages: readonly string[]
}
