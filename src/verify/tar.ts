import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { extract } from 'tar-stream'
import { Failure, reasonOf } from '../errors.ts'
import { formatOf } from '../fetch/content.ts'

/** A file in a tar. */
export interface TarEntry {
  /** Without a leading `./`. */
  readonly name: string
  /** In bytes. */
  readonly size: number
  /** False for directories, links and the like. */
  readonly isFile: boolean
}

/** A tar ends with two blocks of zeros. */
const END = 1024

/** What is wrong with a tar. */
export class BrokenTar extends Error {
  override readonly name = 'BrokenTar'
}

/**
 * Reads a tar from its first byte to its last, packed with gzip or not.
 * @param visit gets every entry and its content, of which it reads as much as it likes
 * @throws BrokenTar when it is no whole tar, with the reason as the rest of a sentence
 */
export async function readTar(
  pieces: AsyncIterable<Buffer>,
  visit: (entry: TarEntry, content: AsyncIterable<Buffer>) => Promise<void>,
): Promise<{ readonly isCompressed: boolean }> {
  const iterator = pieces[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done === true) throw new BrokenTar('is empty')
  const isCompressed = formatOf(first.value).kind === 'gzip'
  const archive = extract()
  let failure: unknown
  archive.on('entry', (header, content, next) => {
    const entry = {
      name: header.name.replace(/^\.\//, ''),
      size: header.size ?? 0,
      isFile: header.type === 'file' || header.type === 'contiguous-file',
    }
    visit(entry, buffers(content)).then(
      () => {
        content.resume()
        next()
      },
      (thrown: unknown) => {
        failure = thrown
        archive.destroy()
      },
    )
  })
  const end = new End()
  const whole = async function* (): AsyncGenerator<Buffer, void> {
    yield first.value
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  try {
    if (isCompressed) await pipeline(whole, createGunzip(), end, archive)
    else await pipeline(whole, end, archive)
  } catch (thrown) {
    // A visitor of a broken tar fails with what broke it.
    if (failure !== undefined && failure !== thrown) throw failure
    // The ISO itself could not be read.
    if (thrown instanceof Failure) throw thrown
    throw new BrokenTar(`is no whole ${isCompressed ? 'gzip ' : ''}tar: ${reasonOf(thrown)}`)
  }
  if (!end.isZero) throw new BrokenTar('is no whole tar: the blocks that end it are missing')
  return { isCompressed }
}

async function* buffers(content: AsyncIterable<unknown>): AsyncGenerator<Buffer, void> {
  for await (const chunk of content) if (Buffer.isBuffer(chunk)) yield chunk
}

/** Passes bytes on and remembers the last of them. */
class End extends Transform {
  #last = Buffer.alloc(0)

  /** Whether the last bytes are those that end a tar. */
  get isZero(): boolean {
    return this.#last.length === END && this.#last.every((byte) => byte === 0)
  }

  override _transform(chunk: Buffer, _encoding: string, done: (error: null, chunk: Buffer) => void): void {
    this.#last = Buffer.concat([this.#last, chunk.subarray(-END)]).subarray(-END)
    done(null, chunk)
  }
}
