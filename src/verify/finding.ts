import { Failure, reasonOf } from '../errors.ts'

/** Something about an ISO that a node would stumble over, or that its owner should know. */
export interface Finding {
  /** A node fails on an `error`; a `notice` can be lived with. */
  readonly severity: 'error' | 'notice'
  /** What is wrong, as the rest of a sentence that starts with `where`. */
  readonly what: string
  /** The file of the ISO, or `the ISO`. */
  readonly where: string
  /** Why a node would fail. */
  readonly why: string
  readonly fix: string
}

/** The whole disk, as a place of findings. */
export const THE_ISO = 'the ISO'

export function errorAt(where: string, what: string, why: string, fix: string): Finding {
  return { severity: 'error', where, what, why, fix }
}

export function noticeAt(where: string, what: string, why: string, fix: string): Finding {
  return { severity: 'notice', where, what, why, fix }
}

/** A finding of what a reader of ours refuses: its advice is the fix. */
export function findingOf(thrown: unknown, where: string, why: string): Finding {
  if (!(thrown instanceof Failure)) throw thrown
  const [message = '', ...next] = reasonOf(thrown).split('\n')
  const what = message.startsWith(where) ? message.slice(where.length).replace(/^[:,]? /, '') : message
  return errorAt(where, what, why, next.join(' '))
}

/**
 * The findings as plain text, errors first: a line for where and what, and below it why a node would fail and how
 * to fix it.
 */
export function formatFindings(findings: readonly Finding[]): string {
  if (findings.length === 0) return 'Nothing was found that a node would stumble over.\n'
  const errors = findings.filter(({ severity }) => severity === 'error')
  const notices = findings.filter(({ severity }) => severity === 'notice')
  const lines = [...errors, ...notices].flatMap(({ severity, where, what, why, fix }) => [
    `${severity.padEnd(8)}${oneLine(where)}: ${oneLine(what)}`,
    `    why     ${oneLine(why)}`,
    `    fix     ${oneLine(fix)}`,
  ])
  return `${[...lines, `${count(errors.length, 'error')}, ${count(notices.length, 'notice')}`].join('\n')}\n`
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

/** What an ISO of foreign origin says must not pass for lines of ours. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
