import { createCipheriv, createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'

export interface ImageSpec {
  /** `os/architecture[/variant]`; default linux/amd64 and linux/arm64. */
  readonly platforms?: readonly string[]
  /** False: no index, the name points straight at the manifest of the one platform. */
  readonly index?: boolean
  readonly mediaTypes?: 'oci' | 'docker'
  /** Bytes that cannot be compressed, added to the layer of each platform. */
  readonly padding?: number
  /** Makes the content differ from that of another image of the same name. */
  readonly mark?: string
  /** Adds an attestation of platform unknown/unknown for each platform, as BuildKit does. */
  readonly attestations?: boolean
  /** False: the index does not say what platform a manifest is for. */
  readonly namesPlatforms?: boolean
}

export interface Blob {
  readonly digest: string
  readonly mediaType: string
  readonly data: Buffer
}

/** An image in memory, byte for byte the same for the same name and specification. */
export interface BuiltImage {
  /** What the name points at: the index, or without one the manifest. */
  readonly top: Blob
  /** Manifests by platform, without those of attestations. */
  readonly manifests: ReadonlyMap<string, Blob>
  /** All manifests, attestations too. */
  readonly allManifests: readonly Blob[]
  /** Configurations and layers. */
  readonly blobs: readonly Blob[]
}

const MEDIA_TYPES = {
  oci: {
    index: 'application/vnd.oci.image.index.v1+json',
    manifest: 'application/vnd.oci.image.manifest.v1+json',
    config: 'application/vnd.oci.image.config.v1+json',
    layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
  },
  docker: {
    index: 'application/vnd.docker.distribution.manifest.list.v2+json',
    manifest: 'application/vnd.docker.distribution.manifest.v2+json',
    config: 'application/vnd.docker.container.image.v1+json',
    layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
  },
} as const

/** A layer that all images share, as real ones share their base. */
const BASE = layerData({
  'etc/os-release': Buffer.from('ID=upstream\n'),
  'bin/run': Buffer.from('#!/bin/sh\n'),
})

/** Makes a small image of the given name: two gzip layers a platform, the first of them shared by all images. */
export async function buildImage(name: string, spec: ImageSpec = {}): Promise<BuiltImage> {
  const platforms = spec.platforms ?? ['linux/amd64', 'linux/arm64']
  const types = MEDIA_TYPES[spec.mediaTypes ?? 'oci']
  const base = await BASE
  const blobs: Blob[] = [blob(types.layer, base.compressed)]
  const manifests = new Map<string, Blob>()
  const attestations: { subject: Blob; manifest: Blob }[] = []

  for (const platform of platforms) {
    const own = await layerData({
      'image.txt': Buffer.from(`${name} ${platform} ${spec.mark ?? ''}\n`),
      padding: noise(`${name} ${platform} ${spec.mark ?? ''}`, spec.padding ?? 0),
    })
    const [os, architecture, variant] = platform.split('/')
    const config = blob(
      types.config,
      json({
        created: '2026-01-01T00:00:00Z',
        architecture,
        ...(variant === undefined ? {} : { variant }),
        os,
        config: { Cmd: ['/bin/run'] },
        rootfs: { type: 'layers', diff_ids: [sha256(base.tar), sha256(own.tar)] },
      }),
    )
    const layers = [blob(types.layer, base.compressed), blob(types.layer, own.compressed)]
    const manifest = manifestOf(types.manifest, config, layers)
    blobs.push(config, ...layers.slice(1))
    manifests.set(platform, manifest)
    if (spec.attestations) {
      const statement = blob('application/vnd.in-toto+json', json({ subject: manifest.digest }))
      const empty = blob(types.config, json({ architecture: 'unknown', os: 'unknown' }))
      blobs.push(statement, empty)
      attestations.push({ subject: manifest, manifest: manifestOf(types.manifest, empty, [statement]) })
    }
  }

  const allManifests = [...manifests.values(), ...attestations.map(({ manifest }) => manifest)]
  if (spec.index === false) {
    const [only, ...others] = allManifests
    if (only === undefined || others.length > 0) throw new Error(`${name}: without an index, one platform`)
    return { top: only, manifests, allManifests: [], blobs }
  }
  const index = {
    schemaVersion: 2,
    mediaType: types.index,
    manifests: [
      ...[...manifests].map(([platform, manifest]) => {
        const [os, architecture, variant] = platform.split('/')
        const named = { architecture, os, ...(variant === undefined ? {} : { variant }) }
        return { ...descriptorOf(manifest), ...(spec.namesPlatforms === false ? {} : { platform: named }) }
      }),
      ...attestations.map(({ subject, manifest }) => ({
        ...descriptorOf(manifest),
        annotations: {
          'vnd.docker.reference.digest': subject.digest,
          'vnd.docker.reference.type': 'attestation-manifest',
        },
        platform: { architecture: 'unknown', os: 'unknown' },
      })),
    ],
  }
  return { top: blob(types.index, json(index)), manifests, allManifests, blobs }
}

function manifestOf(mediaType: string, config: Blob, layers: readonly Blob[]): Blob {
  return blob(
    mediaType,
    json({ schemaVersion: 2, mediaType, config: descriptorOf(config), layers: layers.map(descriptorOf) }),
  )
}

function descriptorOf({ mediaType, digest, data }: Blob) {
  return { mediaType, digest, size: data.length }
}

async function layerData(
  files: Readonly<Record<string, Buffer>>,
): Promise<{ tar: Buffer; compressed: Buffer }> {
  const archive = pack()
  for (const [name, data] of Object.entries(files)) {
    archive.entry({ name, mode: 0o755, mtime: new Date(0) }, data)
  }
  archive.finalize()
  const tar = await buffer(archive)
  return { tar, compressed: gzipSync(tar, { level: 1 }) }
}

/** Bytes that look random but follow from the seed. */
function noise(seed: string, length: number): Buffer {
  const key = createHash('sha256').update(seed).digest()
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(length))
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function blob(mediaType: string, data: Buffer): Blob {
  return { digest: sha256(data), mediaType, data }
}

function sha256(data: Buffer): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`
}
