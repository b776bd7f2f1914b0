import { type FileHandle, open } from 'node:fs/promises'
import { Failure, fileFailure } from '../errors.ts'
import { jolietFormOf } from './names.ts'
import {
  type DirectoryRecord,
  directoryRecords,
  isoName,
  isSelfOrParent,
  joinSystemUse,
  jolietName,
  Malformed,
  parseDescriptor,
  parseSystemUse,
  SECTOR,
  type SystemUse,
  type Volume,
} from './records.ts'

/** A file or directory of an image; the root itself is none. */
export interface IsoEntry {
  /** Relative to the root, with `/`: Rock Ridge names where the image has them, else plain ISO 9660 names. */
  readonly path: string
  /** In bytes; 0 for a directory. */
  readonly size: number
  readonly isDirectory: boolean
  /** POSIX mode with the file type; only with Rock Ridge. */
  readonly mode?: number
  /** The same entry in the Joliet tree, where there is one and it can be told which it is. */
  readonly jolietPath?: string
}

/** An open image. */
export interface IsoImage {
  readonly volumeId: string
  /** False: a Linux node would see Joliet names or, without them, names such as `KUBEADM` or `PAUSE_3_.TAR`. */
  readonly rockRidge: boolean
  readonly joliet: boolean
  /** Every entry, a directory before what is in it. */
  readonly entries: readonly IsoEntry[]
  /**
   * The content of a file, or what it has of the `length` bytes from `offset` on, in pieces of at most 1 MiB.
   * @throws Failure when there is no such file in the image, or the image changed since it was opened
   */
  read(
    path: string,
    range?: { readonly offset: number; readonly length: number },
  ): AsyncGenerator<Buffer, void>
  close(): Promise<void>
}

const FIRST_DESCRIPTOR = 16
const MOST_DESCRIPTORS = 64

/** A tree with larger directories is no ISO of ours; bounds what a hostile image can make us hold in memory. */
const MOST_DIRECTORY_BYTES = 64 * 1024 * 1024

/** PATH_MAX of Linux: no node could open a longer path. */
const LONGEST_PATH = 4096

const MOST_CONTINUATIONS = 64
const LONGEST_CONTINUATION = 64 * 1024

const PIECE = 1024 * 1024

/**
 * Opens an ISO 9660 image of any origin and reads its directory trees: without mounting (which needs root and a
 * kernel module) and without another program.
 * @throws Failure when the file cannot be read or is no whole ISO 9660 image, with the reason
 */
export async function openIso(path: string): Promise<IsoImage> {
  const handle = await open(path).catch((thrown: unknown) => {
    throw fileFailure('Cannot open the ISO', path, thrown)
  })
  try {
    return await readImage(path, handle)
  } catch (thrown) {
    await handle.close()
    throw imageFailure(path, thrown)
  }
}

function imageFailure(path: string, thrown: unknown): Failure {
  if (!(thrown instanceof Malformed)) return fileFailure('Cannot read the ISO', path, thrown)
  return new Failure(
    `${path} is no whole ISO 9660 image: ${thrown.message}`,
    'Build or download it again, and compare its checksum with the published one.',
    { cause: thrown },
  )
}

async function readImage(path: string, handle: FileHandle): Promise<IsoImage> {
  const bytes = new Bytes(handle, (await handle.stat()).size)
  const volumes = await readVolumes(bytes)
  const primary = volumes.find((volume) => volume.kind === 'primary')
  if (primary === undefined) throw new Malformed('it has no primary volume descriptor')
  if (primary.size > bytes.size) {
    throw new Malformed(`it is cut off: it should have ${primary.size} bytes and has ${bytes.size}`)
  }
  const skip = await rockRidgeSkip(bytes, primary.root)
  const nodes = await walk(bytes, primary.root, skip === undefined ? 'plain' : { skip })
  const joliet = volumes.find((volume) => volume.kind === 'joliet')
  const jolietPaths =
    joliet === undefined ? new Map<IsoNode, string>() : pair(nodes, await walk(bytes, joliet.root, 'joliet'))
  const files = new Map<string, IsoNode>()
  // Of two entries with one name a node finds the first.
  for (const node of nodes) if (!files.has(node.path)) files.set(node.path, node)

  return {
    volumeId: primary.id,
    rockRidge: skip !== undefined,
    joliet: joliet !== undefined,
    entries: nodes.map((node) => {
      const jolietPath = jolietPaths.get(node)
      return {
        path: node.path,
        size: node.size,
        isDirectory: node.isDirectory,
        ...(node.mode === undefined ? {} : { mode: node.mode }),
        ...(jolietPath === undefined ? {} : { jolietPath }),
      }
    }),
    async *read(name, range) {
      const node = files.get(name)
      if (node === undefined || node.isDirectory) {
        throw new Failure(
          `${path} has no file ${name}`,
          'List what the image holds and ask for a name as it stands there.',
        )
      }
      try {
        yield* readExtents(bytes, node.extents, range ?? { offset: 0, length: node.size })
      } catch (thrown) {
        throw imageFailure(path, thrown)
      }
    },
    close: async () => await handle.close(),
  }
}

/** The image file, with every access checked against its size. */
class Bytes {
  readonly size: number
  readonly #handle: FileHandle

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.size = size
  }

  async read(offset: number, length: number): Promise<Buffer> {
    if (offset + length > this.size) {
      throw new Malformed(`it is cut off: it refers to byte ${offset + length} and has ${this.size}`)
    }
    const buffer = Buffer.allocUnsafe(length)
    for (let filled = 0; filled < length; ) {
      const { bytesRead } = await this.#handle.read(buffer, filled, length - filled, offset + filled)
      if (bytesRead === 0) throw new Malformed('it became shorter while it was read')
      filled += bytesRead
    }
    return buffer
  }
}

interface Extent {
  /** In bytes from the start of the image. */
  readonly offset: number
  readonly length: number
}

interface IsoNode {
  readonly path: string
  readonly parent: string
  readonly name: string
  readonly size: number
  readonly isDirectory: boolean
  readonly mode: number | undefined
  readonly extents: readonly Extent[]
}

async function readVolumes(bytes: Bytes): Promise<readonly Volume[]> {
  if (bytes.size === 0) throw new Malformed('it is empty')
  const volumes: Volume[] = []
  for (let sector = FIRST_DESCRIPTOR; sector < FIRST_DESCRIPTOR + MOST_DESCRIPTORS; sector++) {
    const found = parseDescriptor(await bytes.read(sector * SECTOR, SECTOR))
    if (found === 'end') return volumes
    if (found !== undefined) volumes.push(found)
  }
  throw new Malformed('its set of volume descriptors has no end')
}

/** How a tree's names are read: as Rock Ridge (whose areas begin after `skip` bytes), ISO 9660 or Joliet. */
type Names = 'plain' | 'joliet' | { readonly skip: number }

/** Looks for the marks of SUSP (SP) and Rock Ridge (PX) in the root's own record. */
async function rockRidgeSkip(bytes: Bytes, root: DirectoryRecord): Promise<number | undefined> {
  const [self] = directoryRecords(await bytes.read(root.offset, SECTOR))
  if (self === undefined) throw new Malformed('its root directory is empty')
  // Without SP in front the area is no SUSP, and may hold anything.
  if (self.systemUse.toString('latin1', 0, 2) !== 'SP') return undefined
  const use = await systemUseOf(bytes, self.systemUse)
  return use.mode === undefined ? undefined : use.skip
}

async function systemUseOf(bytes: Bytes, area: Buffer): Promise<SystemUse> {
  let use = parseSystemUse(area)
  for (let hops = 0; use.next !== undefined; hops++) {
    if (hops === MOST_CONTINUATIONS || use.next.length > LONGEST_CONTINUATION) {
      throw new Malformed('a Rock Ridge entry goes on without end')
    }
    use = joinSystemUse(use, parseSystemUse(await bytes.read(use.next.offset, use.next.length)))
  }
  return use
}

/** Reads a whole tree, a directory before what is in it. */
async function walk(bytes: Bytes, root: DirectoryRecord, names: Names): Promise<readonly IsoNode[]> {
  const nodes: IsoNode[] = []
  const seen = new Set<number>()
  let total = 0
  const directories: { path: string; extent: Extent }[] = [{ path: '', extent: root }]
  // Grows while it is walked through.
  for (const { path, extent } of directories) {
    if (seen.has(extent.offset)) throw new Malformed(`the directory ${path} contains itself`)
    seen.add(extent.offset)
    total += extent.length
    if (total > MOST_DIRECTORY_BYTES) throw new Malformed('its directories are too large')
    for (const records of filesOf(directoryRecords(await bytes.read(extent.offset, extent.length)))) {
      const node = await readNode(bytes, path, records, names)
      if (node === undefined) continue
      nodes.push(node)
      const [first] = node.extents
      if (node.isDirectory && first !== undefined) directories.push({ path: node.path, extent: first })
    }
  }
  return nodes
}

/** A file's records, one an extent (a file of 4 GiB or more has several), put together. */
function filesOf(records: readonly DirectoryRecord[]): readonly (readonly DirectoryRecord[])[] {
  const files: DirectoryRecord[][] = []
  let open: DirectoryRecord[] | undefined
  for (const record of records) {
    if (isSelfOrParent(record.identifier)) continue
    if (open === undefined) {
      open = []
      files.push(open)
    } else if (open[0]?.identifier.equals(record.identifier) === false) {
      throw new Malformed('a file of several parts is incomplete')
    }
    open.push(record)
    if (!record.isContinued) open = undefined
  }
  if (open !== undefined) throw new Malformed('a file of several parts is incomplete')
  return files
}

/** @returns undefined for an entry that is not shown where it is stored */
async function readNode(
  bytes: Bytes,
  parent: string,
  records: readonly DirectoryRecord[],
  names: Names,
): Promise<IsoNode | undefined> {
  const [first] = records
  if (first === undefined) return undefined
  const use =
    typeof names === 'string' ? undefined : await systemUseOf(bytes, first.systemUse.subarray(names.skip))
  if (use?.isRelocated === true) return undefined
  const name =
    names === 'joliet'
      ? jolietName(first.identifier)
      : (use?.name?.toString('utf8') ?? isoName(first.identifier))
  if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name)) {
    throw new Malformed(`${JSON.stringify(name)} is no name of a file`)
  }
  const path = parent === '' ? name : `${parent}/${name}`
  if (path.length > LONGEST_PATH) throw new Malformed('a path has more than 4096 characters')

  if (use?.child !== undefined) {
    const extent = await directoryAt(bytes, use.child)
    return { path, parent, name, size: 0, isDirectory: true, mode: use.mode, extents: [extent] }
  }
  const extents = records.filter(({ length }) => length > 0)
  if (extents.some(({ offset, length }) => offset + length > bytes.size)) {
    throw new Malformed(`it is cut off within ${path}`)
  }
  const size = first.isDirectory ? 0 : extents.reduce((sum, { length }) => sum + length, 0)
  return { path, parent, name, size, isDirectory: first.isDirectory, mode: use?.mode, extents }
}

/** A relocated directory is known by its place alone; its size is in its own first record. */
async function directoryAt(bytes: Bytes, offset: number): Promise<Extent> {
  const [self] = directoryRecords(await bytes.read(offset, SECTOR))
  if (self === undefined || self.offset !== offset) throw new Malformed('a relocated directory is not there')
  return { offset, length: self.length }
}

/** Finds each entry's path in the Joliet tree: by its name there, else (a cut name) by where its data is. */
function pair(nodes: readonly IsoNode[], joliet: readonly IsoNode[]): ReadonlyMap<IsoNode, string> {
  const byPath = new Map(joliet.map((node) => [node.path, node]))
  const byData = new Map<string, IsoNode[]>()
  for (const node of joliet) byData.set(dataKey(node), [...(byData.get(dataKey(node)) ?? []), node])
  const pathOf = new Map<string, string>([['', '']])
  const found = new Map<IsoNode, string>()
  for (const node of nodes) {
    const parent = pathOf.get(node.parent)
    if (parent === undefined) continue
    const name = jolietFormOf(node.name)
    const sameData = byData.get(dataKey({ ...node, parent })) ?? []
    const twin =
      byPath.get(parent === '' ? name : `${parent}/${name}`) ??
      (sameData.length === 1 ? sameData[0] : undefined)
    if (twin === undefined) continue
    found.set(node, twin.path)
    if (node.isDirectory) pathOf.set(node.path, twin.path)
  }
  return found
}

function dataKey({ parent, size, extents }: IsoNode): string {
  return `${extents[0]?.offset} ${size} ${parent}`
}

async function* readExtents(
  bytes: Bytes,
  extents: readonly Extent[],
  range: { readonly offset: number; readonly length: number },
): AsyncGenerator<Buffer, void> {
  const end = range.offset + range.length
  let start = 0
  for (const extent of extents) {
    const from = Math.max(range.offset - start, 0)
    const to = Math.min(end - start, extent.length)
    for (let at = from; at < to; at += PIECE) {
      yield await bytes.read(extent.offset + at, Math.min(PIECE, to - at))
    }
    start += extent.length
  }
}
