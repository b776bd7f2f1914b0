import { readText, type TextContext } from '../iso/text.ts'
import { type IsoRecord, parseRecord } from './record.ts'

/**
 * Reads a record back.
 * @param source a versions.txt, as path or http(s) URL, or the path of an ISO
 * @param input the input or argument that names it
 * @throws Failure as readText and parseRecord; Cancelled
 */
export async function readRecord(source: string, input: string, context: TextContext): Promise<IsoRecord> {
  const text = await readText({ source, onIso: 'versions.txt', input }, context)
  return parseRecord(text, `${input}: ${source}`)
}
