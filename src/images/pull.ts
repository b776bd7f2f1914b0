import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import pMap, { pMapSkip } from 'p-map'
import type { Arch } from '../arch.ts'
import { Cancelled, Failure } from '../errors.ts'
import { PAUSES } from '../fetch/retry.ts'
import type { Log } from '../log.ts'
import type { PieceCache } from '../piece-cache.ts'
import { notAsLocked } from '../request/lock.ts'
import { writeArchive } from './archive.ts'
import { archiveKey, archiveProblem } from './cached.ts'
import type { Containerd } from './containerd.ts'
import { fetchContent } from './content.ts'
import { askedBy, resolveDigest } from './fetch.ts'
import { contestedTags, type PlannedImage, planImages, type WantedImage } from './plan.ts'

/** An image in its archive. */
export interface PulledImage {
  /** As nodes know it: `repository:tag`, `repository:tag@digest` or `repository@digest`. */
  readonly reference: string
  /** The names that a node gives it on import. */
  readonly names: readonly [string, ...string[]]
  /** What the reference points at, `sha256:…`: of the index where there is one. */
  readonly digest: string
  /** Name of the archive on the ISO. */
  readonly fileName: string
  /** The archive here. */
  readonly path: string
  /** Of the archive, in bytes. */
  readonly size: number
}

export interface PullOptions {
  readonly containerd: Containerd
  readonly log: Log
  readonly signal: AbortSignal
  /** Before the second, third and fourth try, in milliseconds. */
  readonly pauses?: readonly number[]
}

/** More at once gain nothing: registries and disks are busy with these. */
const AT_ONCE = 4

/**
 * As planImages, and asks the registries what a tag points at where some manifests name an image by that tag and
 * others by tag and digest.
 * @throws Failure as planImages, or when a registry does not answer; Cancelled
 */
export async function planImagesWithTags(
  wanted: readonly WantedImage[],
  options: PullOptions,
): Promise<readonly PlannedImage[]> {
  const context = { pauses: PAUSES, ...options }
  const planned = planImages(wanted)
  const contested = contestedTags(wanted)
  if (contested.length === 0) return planned
  const digests = await pMap(
    planned.filter(({ fetch }) => contested.includes(fetch)),
    async (image): Promise<[string, string]> => [image.fetch, await resolveDigest(image, context)],
    { concurrency: AT_ONCE },
  )
  return planImages(wanted, new Map(digests))
}

/**
 * Pulls images for nodes of one architecture and archives each as soon as it is there. When one fails, no other is
 * begun, and it settles when those under way have ended.
 * @param options.dir the directory for the archives, which must exist
 * @param options.cache keeps archives from one run to the next: what is in it is not pulled
 * @param options.onFailure called at the first failure, so that the caller can cancel what is under way
 * @returns the images in the order of the plan
 * @throws Failure naming the image and who asks for it; Cancelled
 */
export async function pullImages(
  planned: readonly PlannedImage[],
  options: PullOptions & {
    readonly arch: Arch
    readonly dir: string
    readonly cache?: PieceCache
    readonly onFailure?: () => void
  },
): Promise<readonly PulledImage[]> {
  const { arch, dir, cache, containerd, log, signal } = options
  const context = { pauses: PAUSES, ...options }
  const failures: unknown[] = []
  const began = performance.now()
  let count = 0
  let bytes = 0

  const restore = async (image: PlannedImage, path: string): Promise<string | undefined> => {
    if (cache === undefined && image.lockedDigest === undefined) return undefined
    const digest = image.digest ?? (await resolveDigest(image, context))
    if (image.lockedDigest !== undefined && image.lockedDigest !== digest) {
      throw notAsLocked(`The image ${image.reference}${askedBy(image)}`, digest, image.lockedDigest)
    }
    if (cache === undefined) return undefined
    const key = archiveKey(image, digest, arch)
    const check = (file: string) => archiveProblem(file, image, digest, arch)
    const restored = await cache.restore(key, path, check, signal)
    return restored === undefined ? undefined : digest
  }

  const fetch = async (image: PlannedImage, path: string): Promise<string> => {
    const content = await fetchContent(image, arch, context)
    await writeArchive(path, image.names, content, containerd, signal)
    await cache?.save(archiveKey(image, content.top.digest, arch), path)
    return content.top.digest
  }

  const pull = async (image: PlannedImage): Promise<PulledImage> => {
    const path = join(dir, image.fileName)
    const restored = await restore(image, path)
    const digest = restored ?? (await fetch(image, path))
    const { size } = await stat(path)
    count++
    bytes += size
    const megabytes = bytes / 1_000_000
    const speed = megabytes / ((performance.now() - began) / 1000)
    const verb = restored === undefined ? 'pulled' : 'restored'
    log.info(
      `${verb} ${count} of ${planned.length}, ${Math.ceil(megabytes)} MB, ${speed.toFixed(1)} MB/s: ${image.reference}`,
    )
    const { reference, names, fileName } = image
    return { reference, names, digest, fileName, path, size }
  }

  const pulled = await pMap(
    planned,
    async (image) => {
      if (failures.length > 0) return pMapSkip
      try {
        return await pull(image)
      } catch (thrown) {
        const isOurs = thrown instanceof Failure || !signal.aborted
        failures.push(isOurs ? thrown : new Cancelled(`The image ${image.reference}: cancelled`))
        if (failures.length === 1) options.onFailure?.()
        return pMapSkip
      }
    },
    { concurrency: AT_ONCE },
  )
  // One that was cancelled because another failed is not the reason.
  const reason = failures.find((thrown) => !(thrown instanceof Cancelled)) ?? failures[0]
  if (reason !== undefined) throw reason
  return pulled
}
