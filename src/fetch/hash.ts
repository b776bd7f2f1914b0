import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

/** SHA-256 of bytes at hand, as 64 lower-case hexadecimal digits. */
export function sha256Of(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/** SHA-256 of a file, as 64 lower-case hexadecimal digits. */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(
    createReadStream(path, { highWaterMark: 1024 * 1024 }),
    hash,
    signal === undefined ? {} : { signal },
  )
  return hash.digest('hex')
}
