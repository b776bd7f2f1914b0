import { parse } from 'semver'
import { type Arch, parseArch } from '../arch.ts'
import { Failure } from '../errors.ts'
import { type Mirror, parseMirrors } from '../request/mirrors.ts'
import { parseSwitch } from '../request/switch.ts'
import { MATRIX_SETTINGS, type MatrixSettingName } from './settings.ts'

/** Which minors are wanted. */
export type MinorsRequest =
  /** Minors such as `1.33`, and exact versions such as `1.33.13`. */
  | { readonly kind: 'listed'; readonly minors: readonly [string, ...string[]] }
  | { readonly kind: 'newest'; readonly count: number }

/** What the user asked for: parsed and checked, nothing looked up yet. */
export interface MatrixRequest {
  readonly minors: MinorsRequest
  readonly archs: readonly Arch[]
  /** Names of what is released. */
  readonly released: readonly string[]
  /** https URLs of repositories whose tags are names of what is released. */
  readonly repositories: readonly string[]
  readonly includePrereleases: boolean
  readonly mirrors: readonly Mirror[]
}

/** GitHub runs at most 256 jobs of a matrix, and a minor has a job an architecture. */
const MOST_MINORS = 100

/**
 * Reads what the user set.
 * @param values as written; absent and blank mean the default
 * @throws Failure naming the input that cannot be used
 */
export function parseMatrixRequest(
  values: Partial<Readonly<Record<MatrixSettingName, string>>>,
): MatrixRequest {
  const textOf = (wanted: MatrixSettingName): string => {
    const text = values[wanted]?.trim() ?? ''
    return text === '' ? (MATRIX_SETTINGS.find(({ name }) => name === wanted)?.default ?? '') : text
  }
  const lines = textOf('released')
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const isRepository = (line: string): boolean => line.includes('://')
  return {
    minors: parseMinors(textOf('minors'), textOf('newest')),
    archs: [...new Set(words(textOf('arch')).map(parseArch))],
    released: lines.filter((line) => !isRepository(line)),
    repositories: lines.filter(isRepository).map(parseRepository),
    includePrereleases: parseSwitch(textOf('include-prereleases'), 'include-prereleases'),
    mirrors: parseMirrors(textOf('mirrors')),
  }
}

function parseMinors(text: string, newest: string): MinorsRequest {
  const [first, ...others] = [...new Set(words(text).flatMap(range))]
  if (first !== undefined) {
    if (others.length >= MOST_MINORS) throw badMinors(text, `these are more than ${MOST_MINORS} minors`)
    return { kind: 'listed', minors: [first, ...others] }
  }
  if (!/^[1-9]\d?$/.test(newest)) {
    throw new Failure(
      `newest: ${JSON.stringify(newest)} is no number of minors`,
      'Set newest to a number from 1 to 99, or list the minors in minors.',
    )
  }
  return { kind: 'newest', count: Number(newest) }
}

/** What one word means: `1.33`, the minors from `1.31-1.34`, or one version. */
function range(word: string): readonly string[] {
  const exact = word.replace(/^v/i, '')
  if (parse(exact)?.version === exact) return [exact]
  const match = /^v?(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-v?(0|[1-9]\d*)\.(0|[1-9]\d*))?$/i.exec(word)
  if (match === null) throw badMinors(word, 'it is neither a minor, a range of minors nor a version')
  const [, major, first, lastMajor = major, last = first] = match
  const count = Number(last) - Number(first) + 1
  if (lastMajor !== major || count < 1)
    throw badMinors(word, 'the range does not lead upwards within one major')
  if (count > MOST_MINORS) throw badMinors(word, `these are more than ${MOST_MINORS} minors`)
  return Array.from({ length: count }, (_, index) => `${major}.${Number(first) + index}`)
}

function badMinors(text: string, why: string): Failure {
  return new Failure(
    `minors: ${JSON.stringify(text)}: ${why}`,
    'Set minors to minors such as 1.31, 1.33, to a range such as 1.31-1.34, or to a version such as 1.33.13.',
  )
}

function parseRepository(url: string): string {
  if (!/^https:\/\//i.test(url) || !URL.canParse(url)) {
    throw new Failure(
      `released: ${JSON.stringify(url)} is no https URL of a repository`,
      'Write the repository as https://github.com/OWNER/NAME, or list the names themselves.',
    )
  }
  return url
}

function words(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}
