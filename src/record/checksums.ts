import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

/** The checksums that stand beside an ISO: CloudStack takes any of them when it registers one. */
export const CHECKSUMS = ['sha256', 'sha512', 'md5'] as const

export type Checksums = Readonly<Record<(typeof CHECKSUMS)[number], string>>

/** All checksums of a file, in one reading: lower-case hexadecimal digits. */
export async function checksumsOf(path: string, signal: AbortSignal): Promise<Checksums> {
  const hashes = { sha256: createHash('sha256'), sha512: createHash('sha512'), md5: createHash('md5') }
  await pipeline(
    createReadStream(path, { highWaterMark: 1024 * 1024 }),
    async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) for (const name of CHECKSUMS) hashes[name].update(chunk)
    },
    { signal },
  )
  return {
    sha256: hashes.sha256.digest('hex'),
    sha512: hashes.sha512.digest('hex'),
    md5: hashes.md5.digest('hex'),
  }
}

/** A checksum file as sha256sum, sha512sum and md5sum write and check it. */
export function checksumFile(checksum: string, fileName: string): string {
  return `${checksum}  ${fileName}\n`
}
