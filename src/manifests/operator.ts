import { lastPathPart, tryReference } from '../images/reference.ts'
import { type ImageHolder, imageHolders } from './images.ts'
import { nameOf } from './objects.ts'
import type { Manifest } from './parse.ts'

const OPERATOR = /(?:^|[-_.])operator(?:$|[-_.])/

/**
 * Why the images of a manifest are not all that its cluster will pull: it runs operators and nothing else, as
 * tigera-operator.yaml does, and what an operator starts later is named in its program.
 * @returns a sentence for a warning; undefined for any other manifest
 */
export function operatorHint(manifest: Manifest): string | undefined {
  const holders = imageHolders(manifest)
  if (holders.length === 0 || !holders.every(isOperator)) return undefined
  const names = [...new Set(holders.map(({ object, reference }) => `${nameOf(object)}, ${reference}`))]
  return `${manifest.where} runs only an operator (${names.join('; ')}): the images that it starts later are named in its program, not in this manifest, so list them in extra-images`
}

function isOperator({ object, reference }: ImageHolder): boolean {
  const image = tryReference(reference)
  return OPERATOR.test(object.name) || (image !== undefined && OPERATOR.test(lastPathPart(image)))
}
