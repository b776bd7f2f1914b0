import { Failure } from '../errors.ts'
import { VOLUME_ID } from './kinds.ts'
import { openIso } from './reader.ts'
import type { TreeEntry } from './tree.ts'

/** How many differences an error message names. */
const MOST_NAMED = 10

/**
 * Compares a finished ISO with the tree it was made of: volume id, Rock Ridge names, sizes. Writers rename
 * or cut what does not suit them, some without a word.
 * @param subject what the ISO is, as the start of an error message
 * @throws Failure that names what differs
 */
export async function checkIso(path: string, expected: readonly TreeEntry[], subject: string): Promise<void> {
  const iso = await openIso(path)
  await iso.close()
  const faults = [
    ...(iso.volumeId === VOLUME_ID ? [] : [`its volume id is "${iso.volumeId}" instead of ${VOLUME_ID}`]),
    ...(iso.rockRidge ? [] : ['it has no Rock Ridge names']),
    ...differences(expected, iso.entries),
  ]
  if (faults.length === 0) return
  const more = faults.length > MOST_NAMED ? `; and ${faults.length - MOST_NAMED} more` : ''
  throw new Failure(
    `${subject} is not what was asked for: ${faults.slice(0, MOST_NAMED).join('; ')}${more}`,
    'Give the named files other, shorter names, or install another ISO writer (xorriso or genisoimage).',
  )
}

/** What is missing, unexpected or of another size, a line each. */
export function differences(expected: readonly TreeEntry[], found: readonly TreeEntry[]): readonly string[] {
  const there = new Map(found.map((entry) => [entry.path, entry]))
  const wanted = new Set(expected.map(({ path }) => path))
  return [
    ...expected.flatMap((entry) => {
      const twin = there.get(entry.path)
      if (twin === undefined) return [`${entry.path} is missing`]
      if (twin.isDirectory !== entry.isDirectory) return [`${entry.path} is of another kind`]
      if (twin.size !== entry.size) return [`${entry.path} has ${twin.size} instead of ${entry.size} bytes`]
      return []
    }),
    ...found.filter(({ path }) => !wanted.has(path)).map(({ path }) => `${path} was not asked for`),
  ]
}
