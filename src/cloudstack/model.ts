import type { Arch } from '../arch.ts'
import { oneLine } from './words.ts'

/** An object of an answer, not looked into yet. */
export type Fields = Readonly<Record<string, unknown>>

export interface Zone {
  readonly id: string
  readonly name: string
}

/** A Kubernetes version that CloudStack can install: the response of listKubernetesSupportedVersions. */
export interface SupportedVersion {
  readonly id: string
  readonly name: string
  /** MAJOR.MINOR.PATCH; CloudStack takes digits only. */
  readonly semver: string
  /** Absent: usable in all zones. */
  readonly zoneId: string | undefined
  readonly isoId: string | undefined
  /** `Ready`, `Failed`, or what it is on the way. */
  readonly isoState: string | undefined
  readonly enabled: boolean
  /** Absent before CloudStack 4.20. */
  readonly arch: Arch | undefined
}

/** An ISO in one zone: a row of listIsos. */
export interface Iso {
  readonly id: string
  readonly zone: string
  readonly ready: boolean
  /** A phase such as `42% Downloaded`, or why it failed. */
  readonly status: string
  /** Hexadecimal, without the algorithm. */
  readonly checksum: string | undefined
  readonly arch: Arch | undefined
  /** What each secondary storage of the zone says of its copy. */
  readonly downloads: readonly Download[]
}

export interface Download {
  readonly store: string
  readonly percent: string
  /** VMTemplateStorageResourceAssoc.Status of CloudStack. */
  readonly state: string
}

/** Smallest and largest number of workers that the autoscaler may make. */
export interface Sizes {
  readonly min: number
  readonly max: number
}

/** A cluster: the response of listKubernetesClusters. */
export interface Cluster {
  readonly id: string
  readonly name: string
  readonly zoneId: string
  /** Absent: of no project. */
  readonly projectId: string | undefined
  readonly versionId: string
  readonly state: string
  /** False for a cluster that something else than CloudStack manages. */
  readonly managed: boolean
  readonly autoscaling: boolean
  /** Absent when one of the two is unset. */
  readonly sizes: Sizes | undefined
}

export function zoneOf(fields: Fields): Zone {
  return { id: textOf(fields, 'id'), name: textOf(fields, 'name') }
}

export function versionOf(fields: Fields): SupportedVersion {
  return {
    id: textOf(fields, 'id'),
    name: textOf(fields, 'name'),
    semver: textOf(fields, 'semanticversion'),
    zoneId: optional(textOf(fields, 'zoneid')),
    isoId: optional(textOf(fields, 'isoid')),
    isoState: optional(textOf(fields, 'isostate')),
    enabled: textOf(fields, 'state') !== 'Disabled',
    arch: archOf(textOf(fields, 'arch')),
  }
}

export function isoOf(fields: Fields): Iso {
  const details = fields.downloaddetails
  return {
    id: textOf(fields, 'id'),
    zone: textOf(fields, 'zonename'),
    ready: fields.isready === true,
    status: textOf(fields, 'status'),
    // Releases before 4.12 answered `{SHA-256}…` while the download ran (pull request 2911).
    checksum: optional(
      textOf(fields, 'checksum')
        .replace(/^\{.*\}/, '')
        .toLowerCase(),
    ),
    arch: archOf(textOf(fields, 'arch')),
    downloads: (Array.isArray(details) ? details : []).filter(isFields).map((download) => ({
      store: textOf(download, 'datastore'),
      percent: textOf(download, 'downloadPercent'),
      state: textOf(download, 'downloadState'),
    })),
  }
}

export function clusterOf(fields: Fields): Cluster {
  const min = numberOf(fields, 'minsize')
  const max = numberOf(fields, 'maxsize')
  return {
    id: textOf(fields, 'id'),
    name: textOf(fields, 'name'),
    zoneId: textOf(fields, 'zoneid'),
    projectId: optional(textOf(fields, 'projectid')),
    versionId: textOf(fields, 'kubernetesversionid'),
    state: textOf(fields, 'state'),
    managed: textOf(fields, 'clustertype') !== 'ExternalManaged',
    autoscaling: fields.autoscalingenabled === true,
    sizes: min === undefined || max === undefined ? undefined : { min, max },
  }
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A string or number as one line of text, '' when absent: CloudStack's words end up in logs and tables. */
export function textOf(fields: Fields, name: string): string {
  const value = fields[name]
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' ? oneLine(value) : ''
}

export function sameSizes(a: Sizes | undefined, b: Sizes | undefined): boolean {
  return a?.min === b?.min && a?.max === b?.max
}

function numberOf(fields: Fields, name: string): number | undefined {
  const text = textOf(fields, name)
  return /^\d+$/.test(text) ? Number(text) : undefined
}

function archOf(text: string): Arch | undefined {
  if (text === 'x86_64') return 'amd64'
  return text === 'aarch64' ? 'arm64' : undefined
}

function optional(text: string): string | undefined {
  return text === '' ? undefined : text
}
