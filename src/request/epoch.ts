import { Failure } from '../errors.ts'

/**
 * Reads SOURCE_DATE_EPOCH (reproducible-builds.org): whole seconds since 1970. Absent or empty: the build finds its
 * own time.
 * @throws Failure for anything else
 */
export function parseEpoch(text: string | undefined): { epoch?: number } {
  if (text === undefined || text.trim() === '') return {}
  if (!isUsableEpoch(Number(text.trim())) || !/^\d+$/.test(text.trim())) {
    throw new Failure(
      `SOURCE_DATE_EPOCH: ${JSON.stringify(text)} is no time`,
      'Set it to whole seconds since 1970, between 1 and the year 2100, or do not set it.',
    )
  }
  return { epoch: Number(text.trim()) }
}

/** What an ISO can carry, and xorriso does not take for "now": later than 1970 and before 2100. */
export function isUsableEpoch(seconds: number): boolean {
  return Number.isInteger(seconds) && seconds >= 1 && seconds < 4_102_444_800
}
