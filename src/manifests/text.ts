import { Failure } from '../errors.ts'

/** The text of a manifest as the ISO carries it, and what had to be repaired for that. */
export interface CleanText {
  readonly text: string
  readonly notices: readonly string[]
}

/** What a user does about a manifest that cannot be used. */
export const CHOOSE_ANOTHER =
  'Open it and look: correct the file, or name another version or URL in the input that it comes from (network, dashboard, autoscaler-version, ccm-version or csi-version).'

/** The line of an offset, 1-based. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

const MARKER = /^---(?:\s|$)/
const END = /^\.\.\.(?:\s|$)/
const TOP_KEY = /^(["']?)(?:apiVersion|kind|metadata)\1\s*:/
const API_VERSION = /^(["']?)apiVersion\1\s*:/
const KIND = /^(["']?)kind\1\s*:/
/** Three dashes, not more, at the end of something: not a rule of dashes, not `-----END CERTIFICATE-----`. */
const GLUED = /[^\s-]---\s*$/

/**
 * Line ends become LF and byte order marks go; a `---` that shares its line with something else becomes a
 * document marker again, so that no object is lost on the way to the node.
 * @throws Failure for a line that starts with `---` and is neither a marker nor one with a key behind it
 */
export function cleanText(raw: string, where: string): CleanText {
  const lines = raw
    .replace(/\r\n?/g, '\n')
    .replace(/^\uFEFF+/gm, '')
    .split('\n')
  const notices: string[] = []
  const repaired = (line: number, how: string) => notices.push(`${where}: line ${line}: ${how}`)
  const whole = splitGluedEnds(splitMarkerLines(lines, where, repaired), repaired)
  return { text: whole.map(({ text }) => text).join('\n'), notices }
}

/** A line and its number in the text as it came. */
interface Line {
  readonly number: number
  readonly text: string
}
type Repaired = (line: number, how: string) => void

/** `---apiVersion: v1` and `--- {…}`: kubectl refuses both ("invalid Yaml document separator"). */
function splitMarkerLines(lines: readonly string[], where: string, repaired: Repaired): readonly Line[] {
  return lines.flatMap((text, index) => {
    const number = index + 1
    if (END.test(text) && isContent(significantAfter(lines, index))) {
      repaired(number, 'kubectl stops reading at "..."; a document marker "---" is added behind it')
      return [
        { number, text },
        { number, text: '---' },
      ]
    }
    if (!text.startsWith('---')) return [{ number, text }]
    const rest = text.slice(3)
    if (/^\s*(?:#|$)/.test(rest)) return [{ number, text }]
    if (!MARKER.test(text) && !TOP_KEY.test(rest)) {
      throw new Failure(`${where}: line ${number}: ${quoted(text)} is no document marker`, CHOOSE_ANOTHER)
    }
    repaired(number, `${quoted(text)} is split into the document marker and what stands behind it`)
    return [
      { number, text: '---' },
      { number, text: rest.trimStart() },
    ]
  })
}

/**
 * `apiGroup: rbac.authorization.k8s.io---`, where a file without a last newline met `echo ---`. It is one
 * only where the marker parts two objects, each with an apiVersion and a kind of its own: one object never
 * has these twice, whatever the line with the dashes is (a value, a comment, the end of a block scalar).
 */
function splitGluedEnds(lines: readonly Line[], repaired: Repaired): readonly Line[] {
  const texts = lines.map(({ text }) => text)
  if (!texts.some((text) => GLUED.test(text))) return lines
  let start = 0
  return lines.flatMap((line, index) => {
    if (MARKER.test(line.text)) start = index + 1
    if (!GLUED.test(line.text) || !TOP_KEY.test(significantAfter(texts, index))) return [line]
    const marker = texts.findIndex((text, at) => at > index && MARKER.test(text))
    const before = texts.slice(start, index + 1)
    const after = texts.slice(index + 1, marker < 0 ? undefined : marker)
    if (!isObject(before) || !isObject(after)) return [line]
    start = index + 1
    repaired(
      line.number,
      `"---" is glued to the end of ${quoted(line.text)}; it becomes the document marker that it was meant to be, so that no object is lost`,
    )
    return [
      { number: line.number, text: line.text.replace(/---\s*$/, '') },
      { number: line.number, text: '---' },
    ]
  })
}

function isObject(lines: readonly string[]): boolean {
  return lines.some((line) => API_VERSION.test(line)) && lines.some((line) => KIND.test(line))
}

/** The next line that is neither blank nor a comment; empty at the end of the text. */
function significantAfter(lines: readonly string[], index: number): string {
  for (let at = index + 1; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (!/^\s*(?:#|$)/.test(line)) return line
  }
  return ''
}

function isContent(line: string): boolean {
  return line !== '' && !MARKER.test(line) && !END.test(line) && !line.startsWith('%')
}

function quoted(line: string): string {
  const text = line.trim()
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 77)}...` : text)
}
