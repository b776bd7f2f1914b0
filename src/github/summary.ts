import { basename } from 'node:path'
import type { BuildResult } from '../build.ts'
import type { CacheLookup } from '../piece-cache.ts'
import { VERSION_NAMES } from '../plan/plan.ts'
import { formatDiff } from '../record/diff.ts'
import type { StageTime } from '../stopwatch.ts'
import { sizeOf } from '../words.ts'
import type { Comparison } from './previous.ts'

/** What a job summary tells. */
export interface SummaryFacts {
  readonly result: Pick<BuildResult, 'plan' | 'images' | 'isoPath' | 'isoSize' | 'isoSha256' | 'versionsPath'>
  /** Undefined when there is nothing to compare with. */
  readonly comparison?: Comparison | undefined
  readonly stages: readonly StageTime[]
  /** Undefined where there is no cache. */
  readonly lookups: readonly CacheLookup[] | undefined
  readonly warnings: readonly string[]
}

/** Bytes for the rows of one table. GitHub drops a summary of more than 1 MiB whole; there are six tables. */
const TABLE_BUDGET = 150_000

/** Longest text of one cell, in characters. */
const LONGEST_CELL = 500

/** Width of the bar of a stage, in characters. */
const BAR = 40

/** A finished build as Markdown, below 1 MiB whatever is in it. Pure. */
export function buildSummary({ result, comparison, stages, lookups, warnings }: SummaryFacts): string {
  const { plan, images } = result
  const iso = basename(result.isoPath)
  const bytes = images.reduce((sum, { size }) => sum + size, 0)
  return [
    `## ${cell(iso)}`,
    '',
    ...warningList(warnings),
    ...table(
      ['ISO', ''],
      [
        ['File', cell(iso)],
        ['Size', `${sizeOf(result.isoSize)} (${result.isoSize} bytes)`],
        ['SHA-256', code(result.isoSha256)],
        ['Architecture', cell(plan.arch)],
      ],
    ),
    ...table(
      ['What', 'Version'],
      VERSION_NAMES.flatMap((name) => {
        const version = plan.versions[name]
        return version === undefined ? [] : [[cell(name), cell(version)]]
      }),
    ),
    ...changes(comparison),
    ...folded(
      `${images.length} images, ${sizeOf(bytes)}`,
      table(
        ['Image', 'Digest', 'Archive'],
        images.map(({ reference, digest, size }) => [cell(reference), code(digest), sizeOf(size)]),
      ),
    ),
    ...(stages.length === 0 ? [] : table(['Stage', 'Time', ''], stageRows(stages))),
    ...cacheSection(lookups),
  ].join('\n')
}

/**
 * Text from elsewhere as one cell that shows it literally: whatever Markdown or HTML could mean something by is written
 * as a character reference, and a long text is cut.
 */
export function cell(text: string): string {
  const characters = [
    ...text
      .slice(0, 4 * LONGEST_CELL)
      .replace(/\s+/g, ' ')
      .replace(/\p{Cc}/gu, ''),
  ]
  const short =
    characters.length > LONGEST_CELL ? [...characters.slice(0, LONGEST_CELL - 1), '…'] : characters
  return short.join('').replace(/[\\`*_[\]<>|~@&$#!"']/g, (character) => `&#${character.codePointAt(0)};`)
}

/** A Markdown table with as many rows as its budget holds. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const lines: string[] = []
  let left = TABLE_BUDGET
  for (const row of rows) {
    const line = `| ${row.join(' | ')} |`
    left -= Buffer.byteLength(line) + 1
    if (left < 0) break
    lines.push(line)
  }
  const missing = rows.length - lines.length
  return [
    `| ${head.join(' | ')} |`,
    `|${' --- |'.repeat(head.length)}`,
    ...lines,
    '',
    ...(missing === 0 ? [] : [`… and ${missing} more.`, '']),
  ]
}

function code(text: string): string {
  return `<code>${cell(text)}</code>`
}

function warningList(warnings: readonly string[]): readonly string[] {
  return warnings.length === 0
    ? []
    : table(
        ['Warning'],
        warnings.map((warning) => [cell(warning)]),
      )
}

const SIGNS: Readonly<Record<string, string>> = { '+': 'added', '-': 'removed', '~': 'moved' }

function changes(comparison: Comparison | undefined): readonly string[] {
  if (comparison === undefined) return []
  const { source, isChanged, diff } = comparison
  const title = `### Since ${cell(source)}`
  if (diff === undefined) return [title, '', 'Nothing is there: this counts as the first build.', '']
  if (!isChanged) return [title, '', 'Nothing changed.', '']
  const rows = formatDiff(diff)
    .trimEnd()
    .split('\n')
    .map((line) => [SIGNS[line.charAt(0)] ?? '', cell(line.slice(2))])
  return [title, '', ...table(['Change', 'What'], rows)]
}

function folded(title: string, lines: readonly string[]): readonly string[] {
  return ['<details>', `<summary>${title}</summary>`, '', ...lines, '</details>', '']
}

/** A bar stands where its stage stood in the whole. */
function stageRows(stages: readonly StageTime[]): readonly (readonly string[])[] {
  const total = Math.max(1, ...stages.map(({ end }) => end))
  return stages.map(({ name, start, end }) => {
    const from = Math.min(BAR - 1, Math.floor((start / total) * BAR))
    const length = Math.max(1, Math.min(BAR - from, Math.round(((end - start) / total) * BAR)))
    const bar = '░'.repeat(from) + '█'.repeat(length) + '░'.repeat(BAR - from - length)
    return [cell(name), `${((end - start) / 1000).toFixed(1)} s`, bar]
  })
}

function cacheSection(lookups: readonly CacheLookup[] | undefined): readonly string[] {
  if (lookups === undefined || lookups.length === 0) return []
  const hits = lookups.filter(({ hit }) => hit).length
  return folded(
    `Cache: ${hits} of ${lookups.length} found`,
    table(
      ['Piece', 'Cached'],
      lookups.map(({ name, hit }) => [cell(name), hit ? 'yes' : 'no']),
    ),
  )
}
