import { createHash } from 'node:crypto'
import { type Arch, platformOf } from '../arch.ts'
import {
  type Descriptor,
  formatPlatform,
  isIndex,
  isKin,
  isManifest,
  readConfigPlatform,
  readIndex,
  readManifest,
  runsOn,
} from '../images/oci.ts'
import { lookupName, tryReference } from '../images/reference.ts'
import { errorAt, type Finding } from './finding.ts'
import { BrokenTar, readTar } from './tar.ts'

/** An image name that an archive brings to a node. */
export interface ArchivedName {
  /** As `ctr image import` registers it. */
  readonly name: string
  /** What it points at; absent in an archive of `docker save`, whose images get a digest on import. */
  readonly digest?: string
}

/** What an archive under docker/ holds. */
export interface Archive {
  /** Path on the ISO. */
  readonly path: string
  /** In bytes. */
  readonly size: number
  readonly names: readonly ArchivedName[]
  readonly findings: readonly Finding[]
}

/** A file in an archive. */
interface Stored {
  readonly size: number
  readonly digest: string
  /** Only of what may be JSON and is small. */
  readonly bytes: Buffer | undefined
}

/** No document of an image is larger: registries take manifests of 4 MiB. */
const LARGEST_DOCUMENT = 4 * 1024 * 1024

/** What all documents of one archive may have, so that a hostile one cannot fill the memory. */
const MOST_DOCUMENT_BYTES = 64 * 1024 * 1024

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

const IMAGE_NAME = 'io.containerd.image.name'
const REF_NAME = 'org.opencontainers.image.ref.name'

const WHY_IMPORT =
  'nodes import every file under docker/; one that cannot be imported stops an upgrade, and its image is missing'

/**
 * Reads an image archive from end to end: whether it is a whole tar, has all that a node of this architecture needs,
 * each blob as announced, and names that a node looks for. Layers are hashed as they pass, never held.
 * @param file its path on the ISO and its size
 */
export async function inspectArchive(
  file: { readonly path: string; readonly size: number },
  pieces: AsyncIterable<Buffer>,
  arch: Arch,
): Promise<Archive> {
  try {
    const stored = await readStored(pieces)
    return { ...file, ...new Inspection(file.path, stored, arch).result() }
  } catch (thrown) {
    if (!(thrown instanceof BrokenTar)) throw thrown
    const finding = errorAt(file.path, thrown.message, WHY_IMPORT, rewrite(arch))
    return { ...file, names: [], findings: [finding] }
  }
}

function rewrite(arch: Arch): string {
  return `Write this archive again (ctr image export --platform ${platformOf(arch)} FILE IMAGE), or build the ISO again.`
}

async function readStored(pieces: AsyncIterable<Buffer>): Promise<ReadonlyMap<string, Stored>> {
  const stored = new Map<string, Stored>()
  let kept = 0
  await readTar(pieces, async ({ name, size, isFile }, content) => {
    if (!isFile) return
    const mayKeep = size <= LARGEST_DOCUMENT && kept + size <= MOST_DOCUMENT_BYTES
    const file = await readFile(content, mayKeep)
    kept += file.bytes?.length ?? 0
    stored.set(name, { size, ...file })
  })
  return stored
}

async function readFile(content: AsyncIterable<Buffer>, mayKeep: boolean): Promise<Omit<Stored, 'size'>> {
  const hash = createHash('sha256')
  const chunks: Buffer[] = []
  let isKept = mayKeep
  for await (const bytes of content) {
    hash.update(bytes)
    if (chunks.length === 0 && bytes[0] !== OPEN_BRACE && bytes[0] !== OPEN_BRACKET) isKept = false
    if (isKept) chunks.push(bytes)
  }
  return { digest: `sha256:${hash.digest('hex')}`, bytes: isKept ? Buffer.concat(chunks) : undefined }
}

/** One archive, from its index down. */
class Inspection {
  readonly #path: string
  readonly #stored: ReadonlyMap<string, Stored>
  readonly #arch: Arch
  readonly #findings: Finding[] = []
  readonly #seen = new Set<string>()

  constructor(path: string, stored: ReadonlyMap<string, Stored>, arch: Arch) {
    this.#path = path
    this.#stored = stored
    this.#arch = arch
  }

  result(): Pick<Archive, 'names' | 'findings'> {
    const isLayout = this.#stored.has('oci-layout')
    const isDockerSave = !isLayout && this.#stored.has('manifest.json')
    const names = isDockerSave ? this.#dockerSave() : this.#layout(isLayout)
    return { names, findings: this.#findings }
  }

  #layout(hasMark: boolean): readonly ArchivedName[] {
    if (!hasMark) this.#broken('has no oci-layout')
    const bytes = this.#stored.get('index.json')?.bytes
    if (bytes === undefined) {
      this.#broken(this.#stored.has('index.json') ? 'has an index.json that is no JSON' : 'has no index.json')
      return []
    }
    const tops = readIndex(bytes)
    if (tops === undefined || tops.length === 0) {
      this.#broken('has an index.json that lists no image')
      return []
    }
    for (const top of tops) this.#image(top)
    const names = tops.flatMap(({ digest }, index) => {
      const name = nameIn(bytes, index)
      return name === undefined ? [] : [{ name, digest }]
    })
    this.#checkNames(names)
    return names
  }

  /** An archive of `docker save`: no digests, so only what its list names can be asked for. */
  #dockerSave(): readonly ArchivedName[] {
    const bytes = this.#stored.get('manifest.json')?.bytes
    const images = bytes === undefined ? undefined : dockerImages(bytes)
    if (images === undefined) {
      this.#broken('has a manifest.json that cannot be read')
      return []
    }
    for (const { config, layers } of images) {
      for (const file of [config, ...layers]) {
        if (!this.#stored.has(file)) this.#broken(`lacks ${file}, which its manifest.json names`)
      }
      const platform = readConfigPlatform(this.#stored.get(config)?.bytes ?? Buffer.alloc(0))
      if (platform !== undefined && !runsOn(platform, this.#arch)) {
        this.#wrongPlatform([formatPlatform(platform)])
      }
    }
    const names = images.flatMap(({ tags }) => tags.map((name) => ({ name: normalised(name) })))
    this.#checkNames(names)
    return names
  }

  /** At least one name has to be one that is looked up, and a digest in a name has to be the image's. */
  #checkNames(names: readonly ArchivedName[]): void {
    const why =
      'kubelet asks the node for repository:tag, or for repository@digest where a digest is given, and finds nothing else'
    const known = names.filter(({ name }) => lookupOf(name) === name)
    if (known.length === 0) {
      const [first] = names
      const what =
        first === undefined
          ? `names no image: its index.json has no ${IMAGE_NAME}`
          : `holds its image under the name ${first.name}, for which no node looks${lookupOf(first.name) === undefined ? '' : `: it looks for ${lookupOf(first.name)}`}`
      this.#add(what, why, 'Tag the image by that name before it is exported, or build the ISO again.')
    }
    for (const { name, digest } of known) {
      const named = tryReference(name)?.digest
      if (named !== undefined && digest !== undefined && named !== digest) {
        this.#add(
          `holds ${digest} under the name ${name}`,
          'the node would run another image than the manifest pins',
          rewrite(this.#arch),
        )
      }
    }
  }

  #image(top: Descriptor): void {
    const document = this.#document(top, isIndex(top) ? 'index' : 'manifest')
    if (document === undefined) return
    if (!isIndex(top)) {
      const manifest = this.#manifest(top)
      const platform = manifest === undefined ? undefined : this.#platformOf(manifest.config)
      if (platform !== undefined && !runsOn(platform, this.#arch)) {
        this.#wrongPlatform([formatPlatform(platform)])
      }
      return
    }
    const entries = readIndex(document)
    if (entries === undefined) {
      this.#broken(`has an index ${top.digest} that cannot be read`)
      return
    }
    this.#entries(entries)
  }

  #entries(entries: readonly Descriptor[]): void {
    const fitting = entries.filter(({ platform }) => platform !== undefined && runsOn(platform, this.#arch))
    const nameless = entries.filter(({ platform }) => platform === undefined)
    const there = fitting.filter(({ digest }) => this.#blob(digest) !== undefined)
    // containerd takes entries without a platform for its own, whatever they are for.
    const manifests = nameless.map((entry) => this.#manifest(entry))
    const isNamelessFit = manifests.some((manifest) => {
      const platform = manifest === undefined ? undefined : this.#platformOf(manifest.config)
      return platform !== undefined && runsOn(platform, this.#arch)
    })
    if (there.length === 0 && !isNamelessFit) {
      const others = entries.filter(({ digest }) => this.#blob(digest) !== undefined)
      const found = others.flatMap(({ platform }) =>
        platform === undefined || platform.os === 'unknown' ? [] : [formatPlatform(platform)],
      )
      this.#wrongPlatform(found)
      return
    }
    for (const entry of fitting) this.#manifest(entry)
    for (const entry of entries) {
      const { platform } = entry
      if (platform === undefined || runsOn(platform, this.#arch) || !isKin(platform, this.#arch)) continue
      if (this.#blob(entry.digest) !== undefined) continue
      this.#add(
        `lacks the manifest ${entry.digest} for ${formatPlatform(platform)}`,
        `containerd before 2.0 wants the manifest of each platform that it takes for its own, also ${formatPlatform(platform)}`,
        rewrite(this.#arch),
      )
    }
  }

  /** Reads a manifest, and sees that all it names is there. */
  #manifest(entry: Descriptor): ReturnType<typeof readManifest> {
    const bytes = this.#document(entry, 'manifest')
    if (bytes === undefined) return undefined
    const manifest = isManifest(entry) ? readManifest(bytes) : undefined
    if (manifest === undefined) {
      this.#broken(`has a manifest ${entry.digest} that cannot be read`)
      return undefined
    }
    this.#expect(manifest.config, 'configuration')
    for (const layer of manifest.layers) this.#expect(layer, 'layer')
    return manifest
  }

  #platformOf({ digest }: Descriptor): ReturnType<typeof readConfigPlatform> {
    const bytes = this.#blob(digest)?.bytes
    return bytes === undefined ? undefined : readConfigPlatform(bytes)
  }

  #document(descriptor: Descriptor, role: string): Buffer | undefined {
    if (!this.#expect(descriptor, role)) return undefined
    const bytes = this.#blob(descriptor.digest)?.bytes
    if (bytes === undefined) this.#broken(`has the ${role} ${descriptor.digest}, which is no JSON`)
    return bytes
  }

  /** @returns whether the blob is there, of the announced size and content; the finding comes once for each blob */
  #expect({ digest, size }: Descriptor, role: string): boolean {
    const blob = this.#blob(digest)
    const fault =
      blob === undefined
        ? `lacks the ${role} ${digest}`
        : blob.size !== size
          ? `has ${blob.size} bytes of the ${role} ${digest}, which has ${size}`
          : blob.digest !== digest
            ? `has altered bytes in the ${role} ${digest}: they are ${blob.digest}`
            : undefined
    if (fault !== undefined && !this.#seen.has(digest)) this.#broken(fault)
    if (fault !== undefined) this.#seen.add(digest)
    return fault === undefined
  }

  #blob(digest: string): Stored | undefined {
    return this.#stored.get(`blobs/${digest.replace(':', '/')}`)
  }

  #wrongPlatform(found: readonly string[]): void {
    this.#add(
      `has no content for ${platformOf(this.#arch)}, only for ${found.join(', ') || 'no platform at all'}`,
      'its programs cannot run on the node',
      rewrite(this.#arch),
    )
  }

  #broken(what: string): void {
    this.#add(what, WHY_IMPORT, rewrite(this.#arch))
  }

  #add(what: string, why: string, fix: string): void {
    this.#findings.push(errorAt(this.#path, what, why, fix))
  }
}

function lookupOf(name: string): string | undefined {
  const reference = tryReference(name)
  return reference === undefined ? undefined : lookupName(reference)
}

/** What containerd makes of a name in an archive of `docker save`. */
function normalised(name: string): string {
  return lookupOf(name) ?? name
}

/** The name that an entry of an index.json gives its image, as `ctr image import` takes it. */
function nameIn(index: Buffer, at: number): string | undefined {
  const { manifests }: { manifests: readonly { annotations?: unknown }[] } = JSON.parse(index.toString())
  const annotations = manifests[at]?.annotations
  if (!isRecord(annotations)) return undefined
  const name = annotations[IMAGE_NAME] ?? annotations[REF_NAME]
  return typeof name === 'string' ? name : undefined
}

interface DockerImage {
  readonly config: string
  readonly layers: readonly string[]
  readonly tags: readonly string[]
}

function dockerImages(bytes: Buffer): readonly DockerImage[] | undefined {
  let list: unknown
  try {
    list = JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
  if (!Array.isArray(list)) return undefined
  return list.map((item: unknown) => {
    const { Config, Layers, RepoTags } = isRecord(item) ? item : {}
    return { config: String(Config), layers: strings(Layers), tags: strings(RepoTags) }
  })
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
