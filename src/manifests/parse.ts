import { type Alias, type Document, LineCounter, parseAllDocuments, type YAMLError } from 'yaml'
import { Failure } from '../errors.ts'
import type { Aliases } from './nodes.ts'
import { objectsOf } from './objects.ts'
import { survey } from './survey.ts'
import { CHOOSE_ANOTHER, cleanText } from './text.ts'

/** A Kubernetes manifest, read: the YAML documents of one file with their places in its text. */
export interface Manifest {
  /** The URL or file name that messages name. */
  readonly where: string
  /** LF line ends, no byte order mark, document markers repaired: what the ISO carries. */
  readonly text: string
  /** Every document, the empty ones too; the ranges of nodes are offsets into `text`. */
  readonly documents: readonly Document.Parsed[]
  readonly aliases: Aliases
  /** How many Kubernetes objects there are; those inside a List count, the List itself does not. */
  readonly objects: number
  /** Repairs that the text needed, a sentence each. */
  readonly notices: readonly string[]
  readonly warnings: readonly ManifestWarning[]
}

/** Something that kubectl takes and that its author hardly meant. */
export interface ManifestWarning {
  /** Names the manifest and the line. */
  readonly message: string
  /** Line of `text`, 1-based. */
  readonly line: number
}

/** Ten times the largest manifest known. An API server takes objects of 1.5 MiB, and parsing takes time. */
const LONGEST = 6_000_000

/**
 * Reads a manifest as kubectl does: comment-only documents, `...`, CRLF, JSON, Lists, merge keys, anchors used
 * twice and duplicate keys (a warning; the last one counts) are taken, glued document markers are repaired.
 * @param where URL or file name, for messages
 * @throws Failure when the text is no YAML, holds no object, or holds a document that is no Kubernetes object
 */
export function parseManifest(raw: string, where: string): Manifest {
  if (raw.length > LONGEST) {
    throw new Failure(
      `${where} has ${raw.length} characters, more than the ${LONGEST} that a manifest may have here`,
      CHOOSE_ANOTHER,
    )
  }
  if (/^\s*<(?!<)/.test(raw)) {
    throw new Failure(
      `${where} is an HTML or XML page, no manifest: it begins ${beginning(raw)}`,
      CHOOSE_ANOTHER,
    )
  }
  const { text, notices } = cleanText(raw, where)
  const lineCounter = new LineCounter()
  const documents = parseAllDocuments(text, {
    merge: true,
    uniqueKeys: false,
    prettyErrors: false,
    lineCounter,
  })

  const aliases = new Map<Alias, unknown>()
  const warnings: ManifestWarning[] = []
  for (const [index, document] of documents.entries()) {
    const lineOf = (offset: number) => lineCounter.linePos(offset).line
    const place = (offset: number) => `${where}: document ${index + 1}, line ${lineOf(offset)}`
    const fail = (offset: number, why: string) => new Failure(`${place(offset)}: ${why}`, CHOOSE_ANOTHER)
    const error = document.errors.find((each) => !isTaken(each))
    if (error !== undefined) throw fail(error.pos[0], messageOf(error))
    survey(document, aliases, {
      fail,
      duplicate: (offset, key) => {
        const message = `${place(offset)}: the key ${JSON.stringify(key)} stands twice in one map; the last one counts, as it does for kubectl`
        warnings.push({ message, line: lineOf(offset) })
      },
    })
  }

  const objects = objectsOf({ where, text, documents, aliases }).length
  if (objects === 0) {
    throw new Failure(`${where} holds no Kubernetes object, it is empty or all comments`, CHOOSE_ANOTHER)
  }
  return { where, text, documents, aliases, objects, notices, warnings }
}

/** `'nginx:1'#comment`: kubectl asks for no space before the comment. */
function isTaken(error: YAMLError): boolean {
  return error.code === 'MISSING_CHAR' && error.message.startsWith('Comments must be separated')
}

function messageOf(error: YAMLError): string {
  return error.code === 'RESOURCE_EXHAUSTION' ? 'this is nested too deeply to be read' : error.message
}

function beginning(text: string): string {
  return JSON.stringify(text.trim().slice(0, 60))
}
