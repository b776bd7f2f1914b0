import { reasonOf } from '../errors.ts'

/** Without line ends and control characters, so that no answer can forge a line of a log. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
}

/** What went wrong, without the advice that a Failure carries on its own lines. */
export function sentenceOf(thrown: unknown): string {
  return reasonOf(thrown).split('\n', 1)[0] ?? ''
}

/** A URL without what may be a secret in it: user and query. */
export function shownUrl(url: string): string {
  const { origin, pathname, search } = new URL(url)
  return `${origin}${pathname}${search === '' ? '' : '?…'}`
}

/** `45 s`, `3 min`. */
export function inWords(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

/** `60 min` of milliseconds. */
export function minutes(milliseconds: number): string {
  return `${Math.round(milliseconds / 60_000)} min`
}
