import type { TextContext } from '../iso/text.ts'
import { readRecord } from '../record/read.ts'
import { parseMirrors } from './mirrors.ts'
import { type BuildRequest, parseRequest } from './request.ts'
import type { SettingValues } from './settings.ts'

/**
 * Reads what the user set, and the lock that it names.
 * @param context `tag`: the tag that a workflow runs for
 * @throws Failure as parseRequest and readRecord; Cancelled
 */
export async function readRequest(
  values: SettingValues,
  context: Omit<TextContext, 'mirrors'> & { readonly tag?: string },
): Promise<BuildRequest> {
  const name = values.lock?.trim() ?? ''
  if (name === '') return parseRequest(values, context)
  const mirrors = parseMirrors(values.mirrors ?? '')
  const record = await readRecord(name, 'lock', { ...context, mirrors })
  return parseRequest(values, { ...context, lock: { name, record } })
}
