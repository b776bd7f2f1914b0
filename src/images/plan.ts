import { Failure } from '../errors.ts'
import { fileNames } from './file-names.ts'
import {
  formatReference,
  type ImageReference,
  lookupName,
  parseReference,
  repositoryOf,
} from './reference.ts'

/** An image that something asks for. */
export interface WantedImage {
  /** As written in the manifest, or printed by the program, that asks for it. */
  readonly reference: string
  /** Who asks: the manifest or program, for messages. */
  readonly source: string
}

/** One image, and so one archive under docker/. Plain data. */
export interface PlannedImage {
  /** As nodes know it, whole: `repository:tag`, `repository:tag@digest` or `repository@digest`. */
  readonly reference: string
  /** What is asked of the registry: `repository:tag`, or `repository@digest` where a digest is given. */
  readonly fetch: string
  /** The names that a node gives it on import, so that every spelling that was asked for is found there. */
  readonly names: readonly [string, ...string[]]
  /** The digest that the reference demands. */
  readonly digest?: string
  /** The digest that an earlier build recorded: the reference has to point at it still. */
  readonly lockedDigest?: string
  /** Name of the archive, distinct among all images of the plan. */
  readonly fileName: string
  /** Who asks for it. */
  readonly sources: readonly string[]
}

/** All references that mean one image. */
interface Group {
  /** The name that CRI looks up: `repository:tag` or `repository@digest`. */
  readonly key: string
  /** The first reference met, with a tag where there is one. */
  reference: ImageReference
  /** `repository:tag` of the references that have a digest too: nice to have as a name. */
  readonly tagsBeside: Set<string>
  /** `repository:tag` that something asks for without a digest: needed as a name. */
  readonly tagsAlone: Set<string>
  readonly sources: Set<string>
}

/**
 * Decides which images go onto the ISO, and under which names. An image pinned by digest goes by that digest, since
 * CRI drops a tag beside one, and by its tag as well unless that tag means another image.
 * @param tagDigests digests that tags (`repository:tag`) are known to point at now, see {@link contestedTags}
 * @throws Failure for a text that is no reference; for a pause image that is pinned by digest or is not the only one
 */
export function planImages(
  wanted: readonly WantedImage[],
  tagDigests: ReadonlyMap<string, string> = new Map(),
): readonly PlannedImage[] {
  const groups = groupImages(wanted, tagDigests)
  checkPause(groups)
  const names = fileNames(groups.map(({ reference }) => reference))
  return groups.map((group, index) => {
    const { key, reference, sources } = group
    return {
      reference: formatReference(reference),
      fetch: key,
      names: [key, ...ownTags(group, groups)],
      ...(reference.digest === undefined ? {} : { digest: reference.digest }),
      fileName: names[index] ?? '',
      sources: [...sources],
    }
  })
}

/**
 * The tags (`repository:tag`) that are asked for both alone and beside a digest. Only the registry knows whether
 * both mean the same image: whoever resolves them spares the ISO a second copy.
 */
export function contestedTags(wanted: readonly WantedImage[]): readonly string[] {
  const references = wanted.map(({ reference, source }) => parseReference(reference, source))
  const beside = new Set(references.filter(({ digest }) => digest !== undefined).map(taggedName))
  const alone = references.filter(({ digest }) => digest === undefined).map(formatReference)
  return [...new Set(alone)].filter((tag) => beside.has(tag))
}

function groupImages(
  wanted: readonly WantedImage[],
  tagDigests: ReadonlyMap<string, string>,
): readonly Group[] {
  const references = wanted.map(({ reference, source }) => parseReference(reference, source))
  const pinned = new Set(references.filter(({ digest }) => digest !== undefined).map(lookupName))
  const groups = new Map<string, Group>()
  for (const [index, written] of references.entries()) {
    const reference = withKnownDigest(written, pinned, tagDigests)
    const key = lookupName(reference)
    const group = groups.get(key) ?? {
      key,
      reference,
      tagsBeside: new Set(),
      tagsAlone: new Set(),
      sources: new Set(),
    }
    groups.set(key, group)
    if (group.reference.tag === undefined) group.reference = reference
    const tag = taggedName(reference)
    if (reference.digest !== undefined && tag !== undefined) {
      const tags = written.digest === undefined ? group.tagsAlone : group.tagsBeside
      tags.add(tag)
    }
    group.sources.add(wanted[index]?.source ?? '')
  }
  return [...groups.values()]
}

/** A tag that points at an image which is wanted by digest too becomes that image. */
function withKnownDigest(
  reference: ImageReference,
  pinned: ReadonlySet<string>,
  tagDigests: ReadonlyMap<string, string>,
): ImageReference {
  const digest = tagDigests.get(formatReference(reference))
  if (reference.digest !== undefined || digest === undefined) return reference
  const known = { ...reference, digest }
  return pinned.has(lookupName(known)) ? known : reference
}

/** The tags that a pinned image may have as names: those that are asked for, and those that nobody else has. */
function ownTags(group: Group, groups: readonly Group[]): readonly string[] {
  const isOthers = (tag: string): boolean =>
    groups.some(
      (other) =>
        other !== group && (other.key === tag || other.tagsAlone.has(tag) || other.tagsBeside.has(tag)),
    )
  return [...new Set([...group.tagsAlone, ...[...group.tagsBeside].filter((tag) => !isOthers(tag))])]
}

/**
 * Nodes take the last line of `ctr images ls -q | grep pause | sort` for their sandbox image, so exactly one name
 * with `pause` in it may be there, and it has to be the plain tag that kubeadm names.
 */
function checkPause(groups: readonly Group[]): void {
  const [first, second] = groups.filter(({ reference }) => formatReference(reference).includes('pause'))
  if (first === undefined) return
  if (second !== undefined) {
    throw new Failure(
      `Two images have "pause" in their reference: ${describe(first)} and ${describe(second)}. Nodes choose their sandbox image by that word, and may choose the wrong one`,
      'Leave one of them out, or choose a version of its source that names the same image as the other.',
    )
  }
  if (first.reference.digest !== undefined) {
    throw new Failure(
      `The pause image is pinned by digest: ${describe(first)}. Nodes know their sandbox image by its tag alone`,
      'Name the pause image by its tag alone there.',
    )
  }
}

function describe({ reference, sources }: Group): string {
  return `${formatReference(reference)} (${[...sources].join(', ')})`
}

/** `repository:tag` of a reference, whether or not it has a digest too. */
function taggedName(reference: ImageReference): string | undefined {
  return reference.tag === undefined ? undefined : `${repositoryOf(reference)}:${reference.tag}`
}
