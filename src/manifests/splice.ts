import { isAlias, isNode, isScalar } from 'yaml'
import { Failure } from '../errors.ts'
import type { Entry } from './nodes.ts'
import { type Manifest, parseManifest } from './parse.ts'

/** Replaces the text from `start` up to `end`; an insertion where the two are equal. */
export interface Splice {
  readonly start: number
  readonly end: number
  readonly text: string
}

/**
 * The manifest with its text changed and read anew. The same splice may come several times: containers that
 * are aliases of one another share their text.
 * @param added how many objects (and documents) the splices add
 * @throws Failure when the new text cannot be read or does not hold the objects of the old one and those added
 */
export function rewritten(manifest: Manifest, splices: readonly Splice[], added = 0): Manifest {
  const unique = new Map(splices.map((splice) => [`${splice.start}-${splice.end}:${splice.text}`, splice]))
  const { where, text, notices, documents, objects } = manifest
  let edited = ''
  let done = 0
  for (const { start, end, text: piece } of [...unique.values()].toSorted((a, b) => a.start - b.start)) {
    if (start < done) throw editFailure(where, 'two changes overlap')
    edited += text.slice(done, start) + piece
    done = end
  }
  const next = parseManifest(edited + text.slice(done), where)
  if (next.documents.length !== documents.length + added || next.objects !== objects + added) {
    throw editFailure(
      where,
      `${objects} objects in ${documents.length} documents became ${next.objects} in ${next.documents.length}, where ${added} more were expected`,
    )
  }
  return { ...next, notices }
}

/** An edit that would have broken the manifest: nothing of it is kept. */
export function editFailure(where: string, why: string): Failure {
  return new Failure(
    `${where} cannot be edited: ${why}`,
    'Write this part of the manifest in a plainer form, and report it: cks-iso should have managed.',
  )
}

/** Sets the value of an entry, in the style of quoting that it has; nothing around it changes. */
export function setValue(text: string, { key, value }: Entry, to: string): Splice {
  const [, keyEnd] = key.range ?? [0, 0]
  if (!isNode(value)) return { start: keyEnd, end: keyEnd, text: `: ${plain(to)}` }
  const [start, end] = value.range ?? [0, 0]
  if (isAlias(value) || !isScalar(value)) return { start, end, text: plain(to) }
  switch (value.type) {
    case 'QUOTE_DOUBLE':
      return { start, end, text: JSON.stringify(to) }
    case 'QUOTE_SINGLE':
      return { start, end, text: `'${to.replaceAll("'", "''")}'` }
    case 'BLOCK_FOLDED':
    case 'BLOCK_LITERAL':
      return { ...blockContent(text, start, end), text: to }
    default:
      return start === end ? afterColon(text, keyEnd, to) : { start, end, text: plain(to) }
  }
}

/** `key:` with nothing behind it, or only a comment. */
function afterColon(text: string, keyEnd: number, to: string): Splice {
  const start = text.indexOf(':', keyEnd) + 1
  return { start, end: start, text: ` ${plain(to)}` }
}

/** The lines of a block scalar below its header (`>-`, `|`), without their indentation and the last newline. */
function blockContent(text: string, start: number, end: number): { start: number; end: number } {
  const header = text.indexOf('\n', start) + 1
  const content = text.slice(header, end)
  return { start: header + content.search(/\S/), end: header + content.trimEnd().length }
}

/** A word with a path, a tag or a digest: YAML reads it as a string everywhere, between flow brackets too. */
const PLAIN = /^[a-z][\w.-]*[:/@][\w./:@-]*\w$|^IfNotPresent$/i

function plain(value: string): string {
  return PLAIN.test(value) ? value : JSON.stringify(value)
}
