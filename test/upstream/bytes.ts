import { createCipheriv, createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { pack } from 'tar-stream'

/** SHA-256 as 64 lower-case hexadecimal digits. */
export function sha256(data: Buffer | string): string {
  return createHash('sha256').update(data).digest('hex')
}

/** Bytes that follow from the seed and that no program can compress. */
export function noise(seed: string, length: number): Buffer {
  const key = createHash('sha256').update(seed).digest()
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(length))
}

/** Packs files by their names, byte for byte the same for the same files. All of them are programs. */
export async function tarGz(files: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  const archive = pack()
  for (const [name, data] of Object.entries(files)) {
    archive.entry({ name, mode: 0o755, mtime: new Date(0) }, data)
  }
  archive.finalize()
  return await promisify(gzip)(await buffer(archive), { level: 1 })
}
