import { isNode } from 'yaml'
import { Failure } from '../errors.ts'
import { tryReference } from '../images/reference.ts'
import { type ImageHolder, imageHolders, imageUses } from './images.ts'
import { offsetOf, stringOf } from './nodes.ts'
import type { Manifest } from './parse.ts'
import { editFailure, rewritten, type Splice, setValue } from './splice.ts'
import { CHOOSE_ANOTHER } from './text.ts'

const POLICY = 'IfNotPresent'

/**
 * Makes kubelet take the images from the node: a pull policy that is there becomes IfNotPresent, and one is
 * added where it is missing and kubelet's default is Always (tag `latest`, or neither tag nor digest).
 * @throws Failure when a policy is written in a way that cannot be edited
 */
export function withPullPolicies(manifest: Manifest): Manifest {
  const splices = policySplices(manifest)
  if (splices.length === 0) return manifest
  const next = rewritten(manifest, splices)
  if (policySplices(next).length > 0)
    throw editFailure(manifest.where, 'a pull policy is not what it was set to')
  return next
}

/**
 * Sets the image of a manifest that holds exactly one container image.
 * @throws Failure when it holds none or several: a guess could bundle a wrong one
 */
export function withOnlyImage(manifest: Manifest, image: string): Manifest {
  const references = imageUses(manifest).map(({ reference }) => reference)
  if (references.length !== 1) {
    const held =
      references.length === 0
        ? 'no container image'
        : `${references.length} container images (${references.join(', ')})`
    throw new Failure(`${manifest.where} holds ${held} where one is expected`, CHOOSE_ANOTHER)
  }
  return withReplacedImages(manifest, () => image)
}

/**
 * Changes image references; their pull policies stay.
 * @param replace gets a reference as written and returns another one, or undefined to keep it
 */
export function withReplacedImages(
  manifest: Manifest,
  replace: (reference: string) => string | undefined,
): Manifest {
  const wanted = imageHolders(manifest).map((holder) => ({
    ...holder,
    to: replace(holder.reference) ?? holder.reference,
  }))
  const splices = wanted.flatMap(({ image, reference, to }) =>
    to === reference ? [] : [setValue(manifest.text, image, to)],
  )
  if (splices.length === 0) return manifest
  const next = rewritten(manifest, splices)
  const found = imageUses(next)
  const wrong = wanted.find(({ to }, index) => found[index]?.reference !== to)
  if (wrong !== undefined)
    throw editFailure(manifest.where, `the image ${wrong.reference} could not be set to ${wrong.to}`)
  return next
}

function policySplices(manifest: Manifest): readonly Splice[] {
  return imageHolders(manifest).flatMap((holder) => {
    const { policy, reference } = holder
    const written = policy === undefined ? '' : stringOf(manifest.aliases, policy.value)
    if (written === POLICY) return []
    if (policy !== undefined) return [setValue(manifest.text, policy, POLICY)]
    return tryReference(reference)?.tag === 'latest' ? [addedPolicy(manifest.text, holder)] : []
  })
}

/** On a line below the image; where the image comes by a merge key, in front of the map's first key. */
function addedPolicy(text: string, { map, policyKey, image }: ImageHolder): Splice {
  if (!map.items.some(({ key }) => key === image.key)) {
    const start = offsetOf(map)
    return map.flow === true
      ? insertion(start + 1, `${policyKey}: ${POLICY}, `)
      : insertion(start, `${policyKey}: ${POLICY}\n${' '.repeat(columnOf(text, start))}`)
  }
  const keyStart = offsetOf(image.key)
  const valueEnd = endOf(text, image.value)
  if (map.flow !== true) {
    const lineEnd = text.indexOf('\n', valueEnd)
    const indent = ' '.repeat(columnOf(text, keyStart))
    return insertion(lineEnd < 0 ? text.length : lineEnd, `\n${indent}${policyKey}: ${POLICY}`)
  }
  const before = beforeOnLine(text, keyStart)
  const separator = /^\s*$/.test(before) ? `,\n${before}` : ', '
  const isJson = image.key.type === 'QUOTE_DOUBLE'
  return insertion(
    valueEnd,
    `${separator}${isJson ? `"${policyKey}": "${POLICY}"` : `${policyKey}: ${POLICY}`}`,
  )
}

function insertion(start: number, text: string): Splice {
  return { start, end: start, text }
}

/** The column of a block map, from its first key or another one: behind the dashes of the sequences it is in. */
function columnOf(text: string, keyStart: number): number {
  return /^ *(?:- +)*/.exec(beforeOnLine(text, keyStart))?.[0].length ?? 0
}

function beforeOnLine(text: string, offset: number): string {
  return text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset)
}

/** Behind the last character of a value; the range of a block scalar goes on to the next line. */
function endOf(text: string, node: unknown): number {
  const [start, end] = (isNode(node) && node.range) || [0, 0]
  return start + text.slice(start, end).trimEnd().length
}
