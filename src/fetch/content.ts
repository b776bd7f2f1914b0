import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { Arch } from '../arch.ts'
import { Failure, reasonOf } from '../errors.ts'

/** e_machine of an ELF header (ELF specification; /usr/include/elf.h: EM_X86_64, EM_AARCH64). */
const ELF_MACHINES: Readonly<Record<Arch, number>> = { amd64: 62, arm64: 183 }

const ELF_MAGIC = Buffer.from([0x7f, 0x45, 0x4c, 0x46])
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])
const ELF_MACHINE_OFFSET = 18

/** What the first bytes of a file say it is. */
export type FileFormat =
  | { readonly kind: 'elf'; readonly arch: Arch | undefined }
  | { readonly kind: 'gzip' }
  | { readonly kind: 'other'; readonly start: string }

/** Reads the first bytes of a file. @param head at least its first 20 bytes, or all of it */
export function formatOf(head: Buffer): FileFormat {
  if (head.length >= ELF_MACHINE_OFFSET + 2 && head.subarray(0, 4).equals(ELF_MAGIC)) {
    const machine = head.readUInt16LE(ELF_MACHINE_OFFSET)
    const arch =
      machine === ELF_MACHINES.amd64 ? 'amd64' : machine === ELF_MACHINES.arm64 ? 'arm64' : undefined
    return { kind: 'elf', arch }
  }
  if (head.subarray(0, 2).equals(GZIP_MAGIC)) return { kind: 'gzip' }
  return { kind: 'other', start: head.subarray(0, 60).toString('latin1') }
}

/** What a downloaded file has to be. */
export type ExpectedContent = { readonly kind: 'elf'; readonly arch: Arch } | { readonly kind: 'gzip' }

/**
 * Looks at the first bytes of a file, and reads a gzip archive to its end.
 * @throws Failure when it is something else, such as an error page that came with status 200
 */
export async function requireContent(
  file: { readonly path: string; readonly url: string },
  expected: ExpectedContent,
  input: string,
): Promise<void> {
  const handle = await open(file.path)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(64), 0, 64, 0)
    const found = formatOf(buffer.subarray(0, bytesRead))
    const fits =
      found.kind === expected.kind &&
      (expected.kind !== 'elf' || found.kind !== 'elf' || found.arch === expected.arch)
    if (!fits) {
      throw new Failure(
        `${file.url} is no ${describe(expected)} but ${describe(found)}`,
        `Open that URL; check the inputs ${input} and arch, and what a mirror or proxy answers.`,
      )
    }
  } finally {
    await handle.close()
  }
  if (expected.kind === 'gzip') await requireWholeGzip(file, input)
}

/** A cut archive can have a checksum that matches; its own one at the end cannot. */
async function requireWholeGzip(
  file: { readonly path: string; readonly url: string },
  input: string,
): Promise<void> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  try {
    await pipeline(createReadStream(file.path), createGunzip(), nowhere)
  } catch (thrown) {
    throw new Failure(
      `${file.url} is a damaged gzip archive: ${reasonOf(thrown)}`,
      `Choose another ${input}, or look at what a mirror answers.`,
      { cause: thrown },
    )
  }
}

function describe(format: FileFormat | ExpectedContent): string {
  if (format.kind === 'elf') return `${format.arch ?? 'foreign'} Linux program`
  if (format.kind === 'gzip') return 'gzip archive'
  return format.start === '' ? 'an empty file' : `a file that starts with ${JSON.stringify(format.start)}`
}
