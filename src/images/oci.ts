import type { Arch } from '../arch.ts'

/** What an index says an image is for. */
export interface Platform {
  readonly os: string
  readonly architecture: string
  readonly variant?: string
}

/** What a reference points at. */
export interface Target {
  readonly mediaType: string
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string
}

/** A blob as its referrer names it. */
export interface Descriptor extends Target {
  /** In bytes. */
  readonly size: number
  readonly platform?: Platform
}

export interface Manifest {
  readonly config: Descriptor
  readonly layers: readonly Descriptor[]
}

const INDEX_TYPES: readonly string[] = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
]

const MANIFEST_TYPES: readonly string[] = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
]

export function isIndex({ mediaType }: Target): boolean {
  return INDEX_TYPES.includes(mediaType)
}

export function isManifest({ mediaType }: Target): boolean {
  return MANIFEST_TYPES.includes(mediaType)
}

/** `linux/arm64/v8`. */
export function formatPlatform({ os, architecture, variant }: Platform): string {
  return variant === undefined ? `${os}/${architecture}` : `${os}/${architecture}/${variant}`
}

/**
 * True for a platform that runs on a node of this architecture, spelled in any way that containerd takes for the
 * same (github.com/containerd/platforms, normalizeArch).
 */
export function runsOn(platform: Platform, arch: Arch): boolean {
  const variants = arch === 'amd64' ? ['', 'v1'] : ['', '8', 'v8']
  return (
    platform.os.toLowerCase() === 'linux' &&
    SPELLINGS[arch].includes(platform.architecture.toLowerCase()) &&
    variants.includes((platform.variant ?? '').toLowerCase())
  )
}

/**
 * True for a platform that a containerd on a node of this architecture may take for one of its own: to import an
 * image, containerd before 2.0 wants the manifests of all of these (github.com/containerd/platforms, platformVector).
 */
export function isKin(platform: Platform, arch: Arch): boolean {
  const architecture = platform.architecture.toLowerCase()
  return (
    platform.os.toLowerCase() === 'linux' &&
    (SPELLINGS[arch].includes(architecture) || LESSER[arch].includes(architecture))
  )
}

const SPELLINGS: Readonly<Record<Arch, readonly string[]>> = {
  amd64: ['amd64', 'x86_64', 'x86-64'],
  arm64: ['arm64', 'aarch64'],
}

/** Architectures whose programs also run there. */
const LESSER: Readonly<Record<Arch, readonly string[]>> = {
  amd64: ['386', 'i386'],
  arm64: ['arm', 'armhf', 'armel'],
}

/** @returns undefined when the bytes are no index */
export function readIndex(bytes: Buffer): readonly Descriptor[] | undefined {
  return descriptors(readObject(bytes)?.manifests)
}

/** @returns undefined when the bytes are no manifest of an image */
export function readManifest(bytes: Buffer): Manifest | undefined {
  const manifest = readObject(bytes)
  const config = descriptor(manifest?.config)
  const layers = descriptors(manifest?.layers)
  return config === undefined || layers === undefined ? undefined : { config, layers }
}

/** @returns the platform that an image configuration names, undefined when it names none */
export function readConfigPlatform(bytes: Buffer): Platform | undefined {
  return platform(readObject(bytes))
}

function readObject(bytes: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function descriptors(value: unknown): readonly Descriptor[] | undefined {
  if (!Array.isArray(value)) return undefined
  const read = value.map(descriptor)
  return read.every((item) => item !== undefined) ? read : undefined
}

function descriptor(value: unknown): Descriptor | undefined {
  if (!isObject(value)) return undefined
  const { mediaType, digest, size } = value
  if (typeof mediaType !== 'string' || typeof size !== 'number') return undefined
  if (typeof digest !== 'string' || !/^sha256:[a-f0-9]{64}$/.test(digest)) return undefined
  const named = platform(value.platform)
  return { mediaType, digest, size, ...(named === undefined ? {} : { platform: named }) }
}

function platform(value: unknown): Platform | undefined {
  if (!isObject(value)) return undefined
  const { os, architecture, variant } = value
  if (typeof os !== 'string' || typeof architecture !== 'string' || os === '' || architecture === '') {
    return undefined
  }
  return { os, architecture, ...(typeof variant === 'string' && variant !== '' ? { variant } : {}) }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
