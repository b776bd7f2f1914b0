import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Arch, platformOf } from '../arch.ts'
import { Failure, fileFailure, hasCode } from '../errors.ts'
import { type FetchContext, type FetchedImage, fetchImage, fetchManifest } from './fetch.ts'
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
  type Target,
} from './oci.ts'

/** All that an archive of an image for one platform needs. */
export interface ImageContent {
  /** What the reference points at: an index, or without one a manifest. */
  readonly top: Descriptor
  /** Index, manifests and configurations by digest, verified. */
  readonly documents: ReadonlyMap<string, Buffer>
  /** Layers, each once. They are files of containerd's. */
  readonly layers: readonly Descriptor[]
}

/**
 * Fetches an image for nodes of one architecture and finds out what belongs to it.
 *
 * The index stays as it is, so that its digest does. It names platforms whose content is not fetched, which is
 * fine for a node as long as it never looks for them; containerd 1.6 and 1.7 look for the manifests of platforms
 * that they take for their own as well (linux/386 on amd64), so those manifests come along, without their content.
 * @param digest what the reference must point at, where it demands a digest
 * @throws Failure naming the image when it cannot be fetched, is not offered for this architecture, or is no image
 */
export async function fetchContent(
  image: FetchedImage & { readonly digest?: string },
  arch: Arch,
  context: FetchContext,
): Promise<ImageContent> {
  const target = await fetchImage(image, platformOf(arch), context)
  if (image.digest !== undefined && image.digest !== target.digest) {
    throw new Failure(
      `containerd changed the image ${image.fetch} to ${target.digest} while fetching it, as it does with images of a very old format`,
      'Choose a newer image, or have this one pushed again by a current tool.',
    )
  }
  return await new Walk(image, arch, context).content(target)
}

/** One image, from its top down. */
class Walk {
  readonly #image: FetchedImage
  readonly #arch: Arch
  readonly #context: FetchContext
  readonly #documents = new Map<string, Buffer>()
  readonly #layers = new Map<string, Descriptor>()

  constructor(image: FetchedImage, arch: Arch, context: FetchContext) {
    this.#image = image
    this.#arch = arch
    this.#context = context
  }

  async content(target: Target): Promise<ImageContent> {
    const bytes = await this.#document(target)
    if (isIndex(target)) await this.#index(bytes)
    else await this.#onlyManifest(target, bytes)
    return {
      top: { ...target, size: bytes.length },
      documents: this.#documents,
      layers: [...this.#layers.values()],
    }
  }

  async #index(bytes: Buffer): Promise<void> {
    const entries = readIndex(bytes)
    if (entries === undefined) throw this.#noImage('its index cannot be read')
    let isOffered = false
    for (const entry of entries) {
      const { platform } = entry
      if (platform === undefined) {
        // containerd takes these for its own whatever they are for: on import it wants all of their content.
        isOffered = (await this.#namelessManifest(entry)) || isOffered
      } else if (runsOn(platform, this.#arch)) {
        await this.#manifest(entry, await this.#document(entry))
        isOffered = true
      } else if (isKin(platform, this.#arch)) {
        this.#documents.set(entry.digest, await fetchManifest(this.#image, entry.digest, this.#context))
      }
    }
    if (!isOffered) {
      const offered = entries.flatMap(({ platform }) =>
        platform === undefined || platform.os === 'unknown' ? [] : [formatPlatform(platform)],
      )
      throw this.#notOffered(offered)
    }
  }

  async #onlyManifest(target: Target, bytes: Buffer): Promise<void> {
    if (!isManifest(target)) throw this.#noImage(`its media type is ${target.mediaType}`)
    const config = await this.#config(bytes)
    const platform = readConfigPlatform(config)
    if (platform === undefined) throw this.#noImage('its configuration names no platform')
    if (!runsOn(platform, this.#arch)) throw this.#notOffered([formatPlatform(platform)])
    await this.#manifest(target, bytes)
  }

  /** @returns whether the manifest, of an entry that names no platform, is one for this architecture */
  async #namelessManifest(entry: Descriptor): Promise<boolean> {
    const bytes = await this.#document(entry)
    await this.#manifest(entry, bytes)
    const platform = readConfigPlatform(await this.#config(bytes))
    return platform !== undefined && runsOn(platform, this.#arch)
  }

  async #manifest(entry: Target, bytes: Buffer): Promise<void> {
    await this.#config(bytes)
    const manifest = readManifest(bytes)
    if (manifest === undefined || !isManifest(entry)) throw this.#noImage('a manifest of it cannot be read')
    for (const layer of manifest.layers) this.#layers.set(layer.digest, layer)
  }

  async #config(manifestBytes: Buffer): Promise<Buffer> {
    const manifest = readManifest(manifestBytes)
    if (manifest === undefined) throw this.#noImage('its manifest cannot be read')
    return await this.#document(manifest.config)
  }

  /** Reads a small blob out of containerd's files and verifies it. */
  async #document({ digest }: Target): Promise<Buffer> {
    const known = this.#documents.get(digest)
    if (known !== undefined) return known
    const path = this.#context.containerd.blobPath(digest)
    const bytes = await readFile(path).catch((thrown: unknown) => {
      if (!hasCode(thrown, 'ENOENT'))
        throw fileFailure(`Cannot read the image ${this.#image.fetch}`, path, thrown)
      throw new Failure(
        `containerd fetched the image ${this.#image.fetch} without ${digest}, which belongs to it`,
        'Run again; if it stays, try another release of containerd.',
      )
    })
    const hash = createHash('sha256').update(bytes).digest('hex')
    if (`sha256:${hash}` !== digest) {
      throw new Failure(
        `The file of ${digest}, part of the image ${this.#image.fetch}, holds sha256:${hash}`,
        'Run again, on another disk if it stays: this one changes what is written to it.',
      )
    }
    this.#documents.set(digest, bytes)
    return bytes
  }

  #noImage(why: string): Failure {
    return new Failure(
      `${this.#image.fetch} (asked for by ${this.#image.sources.join(', ')}) is no container image: ${why}`,
      'Correct the reference where it stands, or choose another version of that source.',
    )
  }

  #notOffered(offered: readonly string[]): Failure {
    return new Failure(
      `The image ${this.#image.fetch} (asked for by ${this.#image.sources.join(', ')}) is not offered for ${platformOf(this.#arch)}, only for ${offered.join(', ') || 'no platform at all'}`,
      'Choose another arch, or a version of its source whose image has this platform.',
    )
  }
}
