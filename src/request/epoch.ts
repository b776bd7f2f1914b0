import { Failure } from '../errors.ts'

/**
 * Reads SOURCE_DATE_EPOCH (reproducible-builds.org): whole seconds since 1970. Absent or empty: the build finds its
 * own time.
 * @throws Failure for anything else
 */
export function parseEpoch(text: string | undefined): { epoch?: number } {
  if (text === undefined || text.trim() === '') return {}
  if (!/^\d{1,10}$/.test(text.trim())) {
    throw new Failure(
      `SOURCE_DATE_EPOCH: ${JSON.stringify(text)} is no time`,
      'Set it to whole seconds since 1970, or do not set it.',
    )
  }
  return { epoch: Number(text.trim()) }
}
