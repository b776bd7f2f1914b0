import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Pack, pack } from 'tar-stream'
import { Cancelled, Failure, fileFailure } from '../errors.ts'
import { together } from '../together.ts'
import type { Containerd } from './containerd.ts'
import type { ImageContent } from './content.ts'
import type { Descriptor } from './oci.ts'
import { tryReference } from './reference.ts'

/** Archives of the same image are the same, whenever they are made. */
const HEADER = { mode: 0o644, uid: 0, gid: 0, mtime: new Date(0) } as const

const INDEX_TYPE = 'application/vnd.oci.image.index.v1+json'

/**
 * Writes an image as an OCI layout in a tar, straight from containerd's files, under a temporary name until it is
 * whole. Each blob is verified on its way.
 * @param names the names that `ctr image import` gives the image
 * @returns the size of the archive in bytes
 * @throws Failure when a blob is missing or altered, or the archive cannot be written; Cancelled
 */
export async function writeArchive(
  path: string,
  names: readonly string[],
  content: ImageContent,
  containerd: Containerd,
  signal: AbortSignal,
): Promise<number> {
  const part = `${path}.part`
  const what = `Cannot write the archive of ${names[0]}`
  try {
    const archive = pack()
    await together(
      [
        addEntries(archive, names, content, containerd, signal).then(
          () => archive.finalize(),
          (thrown: unknown) => {
            archive.destroy()
            throw thrown
          },
        ),
        pipeline(archive, createWriteStream(part, { flags: 'wx' }), { signal }),
      ],
      () => archive.destroy(),
    )
    const { size } = await stat(part)
    await rename(part, path)
    return size
  } catch (thrown) {
    await rm(part, { force: true })
    if (signal.aborted) throw new Cancelled(`${what}: cancelled`)
    throw fileFailure(what, path, thrown)
  }
}

async function addEntries(
  archive: Pack,
  names: readonly string[],
  { top, documents, layers }: ImageContent,
  containerd: Containerd,
  signal: AbortSignal,
): Promise<void> {
  await addBytes(archive, 'oci-layout', Buffer.from(JSON.stringify({ imageLayoutVersion: '1.0.0' })))
  await addBytes(archive, 'index.json', Buffer.from(JSON.stringify(layoutIndex(names, top))))
  const blobs = new Map<string, Buffer | Descriptor>([
    ...layers.map((layer): [string, Descriptor] => [layer.digest, layer]),
    ...documents,
  ])
  for (const digest of [...blobs.keys()].toSorted()) {
    const blob = blobs.get(digest)
    const name = `blobs/${digest.replace(':', '/')}`
    if (Buffer.isBuffer(blob)) await addBytes(archive, name, blob)
    else if (blob !== undefined) await addFile(archive, name, blob, containerd.blobPath(digest), signal)
  }
}

/** One name an entry: the annotations are those that containerd itself writes and reads. */
function layoutIndex(names: readonly string[], { mediaType, digest, size }: Descriptor) {
  return {
    schemaVersion: 2,
    mediaType: INDEX_TYPE,
    manifests: names.map((name) => ({
      mediaType,
      digest,
      size,
      annotations: {
        'io.containerd.image.name': name,
        'org.opencontainers.image.ref.name': tryReference(name)?.tag ?? digest,
      },
    })),
  }
}

async function addBytes(archive: Pack, name: string, bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    archive.entry({ ...HEADER, name }, bytes, (error) => (error ? reject(error) : resolve()))
  })
}

async function addFile(
  archive: Pack,
  name: string,
  { digest, size }: Descriptor,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const found = await stat(path)
  const broken = (why: string): Failure =>
    new Failure(
      `The layer ${digest} in ${path} ${why}`,
      'Run again, on another disk if it stays: this one changes what is written to it.',
    )
  if (found.size !== size) throw broken(`has ${found.size} bytes where ${size} are announced`)
  const hash = createHash('sha256')
  const hashing = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  await pipeline(
    createReadStream(path, { highWaterMark: 1024 * 1024 }),
    hashing,
    archive.entry({ ...HEADER, name, size }),
    { signal },
  )
  const actual = `sha256:${hash.digest('hex')}`
  if (actual !== digest) throw broken(`holds ${actual}`)
}
