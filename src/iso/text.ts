import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Failure, fileFailure, hasCode } from '../errors.ts'
import { Downloads, isNotFound } from '../fetch/download.ts'
import type { Log } from '../log.ts'
import { type Mirror, requirePlainSource } from '../request/mirrors.ts'
import { type IsoImage, openIso } from './reader.ts'

/** A text file of more bytes is something else. */
const LARGEST_TEXT = 32 * 1024 * 1024

/** The text of a small file of an ISO. @throws Failure when it is not there or too large */
export async function textOnIso(iso: IsoImage, path: string): Promise<string> {
  const entry = iso.entries.find((each) => each.path === path)
  if (entry !== undefined && entry.size > LARGEST_TEXT) {
    throw new Failure(`${path} has ${entry.size} bytes, too many for a text`, 'Build the ISO again.')
  }
  const pieces: Buffer[] = []
  for await (const piece of iso.read(path)) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

/** A text that the user points at. */
export interface TextRequest {
  /** A file or http(s) URL of it, or an ISO that has it. */
  readonly source: string
  /** Its path on an ISO. */
  readonly onIso: string
  /** The input that names the source. */
  readonly input: string
}

export interface TextContext {
  /** What a relative path is relative to. */
  readonly cwd: string
  readonly tempDir: string
  readonly mirrors: readonly Mirror[]
  readonly log: Log
  readonly signal: AbortSignal
}

/**
 * Reads a text from where the user says it is.
 * @throws Failure naming the input and the source, see {@link isAbsent}; Cancelled
 */
export async function readText(request: TextRequest, context: TextContext): Promise<string> {
  const { source, onIso, input } = request
  requirePlainSource(source, { input, what: onIso, kinds: 'path or URL' })
  if (/^https?:\/\//i.test(source)) {
    const downloads = new Downloads(context)
    const wanted = { what: onIso, input, candidates: [{ url: source }] } as const
    const { text } = await downloads.text(wanted, join(context.tempDir, `cks-iso-${randomUUID()}.txt`))
    return text
  }
  const path = resolve(context.cwd, source)
  if (path.toLowerCase().endsWith('.iso')) {
    const iso = await openIso(path)
    try {
      return await textOnIso(iso, onIso)
    } finally {
      await iso.close()
    }
  }
  return await readFile(path, 'utf8').catch((thrown: unknown) => {
    throw new Failure(
      `${input}: ${fileFailure('cannot read it', path, thrown).message.split('\n')[0]}`,
      `Set ${input} to the path or URL of a ${onIso}, or to the path of an ISO.`,
      { cause: thrown },
    )
  })
}

/** True for a failure of {@link readText} that says that nothing is there: no such file, a 404. */
export function isAbsent(thrown: unknown): boolean {
  return thrown instanceof Failure && (hasCode(thrown.cause, 'ENOENT') || isNotFound(thrown.cause))
}
