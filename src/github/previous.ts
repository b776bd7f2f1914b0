import { isAbsent, type TextContext } from '../iso/text.ts'
import { diffRecords, isSame, type RecordDiff } from '../record/diff.ts'
import { readRecord } from '../record/read.ts'
import type { IsoRecord } from '../record/record.ts'

/** An earlier build to compare with. */
export interface Previous {
  readonly source: string
  /** Undefined when there is nothing at the source: then this is the first build. */
  readonly record: IsoRecord | undefined
}

/** How a build differs from an earlier one. */
export interface Comparison {
  readonly source: string
  readonly isChanged: boolean
  /** Undefined for a first build. */
  readonly diff: RecordDiff | undefined
}

/**
 * Reads the record that the input `previous` names.
 * @returns undefined for an empty input
 * @throws Failure when something is there that is no record, or a server does not answer; Cancelled
 */
export async function readPrevious(source: string, context: TextContext): Promise<Previous | undefined> {
  if (source === '') return undefined
  try {
    return { source, record: await readRecord(source, 'previous', context) }
  } catch (thrown) {
    if (!isAbsent(thrown)) throw thrown
    context.log.warning(`previous: there is nothing at ${source}: this counts as the first build.`)
    return { source, record: undefined }
  }
}

/** Compares a build with an earlier one. */
export function compare(previous: Previous | undefined, record: IsoRecord): Comparison | undefined {
  if (previous === undefined) return undefined
  const { source } = previous
  if (previous.record === undefined) return { source, isChanged: true, diff: undefined }
  const diff = diffRecords(previous.record, record)
  return { source, isChanged: !isSame(diff), diff }
}
