import { createHash } from 'node:crypto'
import { formatReference, type ImageReference, lastPathPart } from './reference.ts'

/** The longest name that Joliet keeps whole, in characters. */
const LONGEST_NAME = 64

/** How many hexadecimal digits stand for a digest or a reference. */
const SHORT_HASH = 12

const SUFFIX = '.tar'

/**
 * Names the archives of images: `<last path part>:<tag>.tar`. A name that is too long, or that two images would
 * share (also after Joliet's change of `:` to `_`, or on a file system without case), is cut where needed and gets a
 * hash of the reference, for all images that share it: so no name depends on the order.
 * @returns a distinct name of at most 64 characters for each reference, in their order
 */
export function fileNames(references: readonly ImageReference[]): readonly string[] {
  const plain = references.map((reference) => `${stem(reference)}${SUFFIX}`)
  const uses = new Map<string, number>()
  for (const name of plain.map(folded)) uses.set(name, (uses.get(name) ?? 0) + 1)
  return references.map((reference, index) => {
    const name = plain[index] ?? ''
    const isShared = (uses.get(folded(name)) ?? 0) > 1
    return isShared || name.length > LONGEST_NAME ? hashedName(reference) : name
  })
}

function stem({ tag, digest, ...reference }: ImageReference): string {
  const name = lastPathPart(reference)
  // A tag cannot hold an @, so this is the name of no tagged image.
  return tag === undefined
    ? `${name}@${(digest ?? '').replace('sha256:', '').slice(0, SHORT_HASH)}`
    : `${name}:${tag}`
}

function hashedName(reference: ImageReference): string {
  const hash = createHash('sha256').update(formatReference(reference)).digest('hex').slice(0, SHORT_HASH)
  const suffix = `@${hash}${SUFFIX}`
  return `${stem(reference).slice(0, LONGEST_NAME - suffix.length)}${suffix}`
}

/** The name as the least able reader of the ISO sees it. */
function folded(name: string): string {
  return name.toLowerCase().replaceAll(':', '_')
}
