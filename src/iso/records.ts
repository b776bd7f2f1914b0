/**
 * The records of an ISO 9660 image, as bytes: ECMA-119 (volume descriptors, directory records), SUSP 1.12 and
 * RRIP 1.12 (Rock Ridge: what a POSIX system sees), Joliet (the same tree with UCS-2 names). Numbers that
 * are stored in both byte orders are read in the little-endian one, as Linux does.
 */

/** Size of a sector and, in every image that the usual writers make, of a logical block, in bytes. */
export const SECTOR = 2048

/** The image is not what ISO 9660 asks for; the message says why, as the end of a sentence. */
export class Malformed extends Error {
  override readonly name = 'Malformed'
}

export interface Volume {
  readonly kind: 'primary' | 'joliet'
  readonly id: string
  /** Size of the whole volume, in bytes, as the descriptor states it. */
  readonly size: number
  readonly root: DirectoryRecord
}

/** Escape sequences by which a supplementary descriptor says that its names are UCS-2 (Joliet, levels 1 to 3). */
const JOLIET_ESCAPES: readonly string[] = ['%/@', '%/C', '%/E']

/**
 * Reads one sector as a volume descriptor.
 * @returns undefined for a descriptor that holds no directory tree we read; 'end' for the one that ends the set
 */
export function parseDescriptor(sector: Buffer): Volume | 'end' | undefined {
  if (sector.toString('latin1', 1, 6) !== 'CD001') throw new Malformed('it has no volume descriptor (CD001)')
  const type = sector.readUInt8(0)
  if (type === 255) return 'end'
  const isJoliet = type === 2 && JOLIET_ESCAPES.includes(sector.toString('latin1', 88, 91))
  if (type !== 1 && !isJoliet) return undefined
  const blockSize = sector.readUInt16LE(128)
  if (blockSize !== SECTOR) throw new Malformed(`its block size is ${blockSize} instead of ${SECTOR} bytes`)
  const [root] = directoryRecords(sector.subarray(156, 190))
  if (!root?.isDirectory) throw new Malformed('its volume descriptor names no root directory')
  const id = sector.subarray(40, 72)
  return {
    kind: isJoliet ? 'joliet' : 'primary',
    // Padded with spaces; some writers pad with zero bytes.
    id: (isJoliet ? ucs2(id) : id.toString('latin1')).replace(/[ \0]+$/, ''),
    size: sector.readUInt32LE(80) * SECTOR,
    root,
  }
}

/** One extent of a file, or a directory. */
export interface DirectoryRecord {
  /** Where its data begins, in bytes from the start of the image. */
  readonly offset: number
  /** Length of its data, in bytes. */
  readonly length: number
  readonly isDirectory: boolean
  /** True when the next record carries more of the same file. */
  readonly isContinued: boolean
  /** The name as recorded; one byte 0 or 1 is the directory itself or its parent. */
  readonly identifier: Buffer
  /** What follows the name: SUSP entries, where there are any. */
  readonly systemUse: Buffer
}

const HIDDEN_FROM_TREE = 0x04
const DIRECTORY = 0x02
const CONTINUED = 0x80

/** Length of a record's fixed part, with the shortest name and its padding. */
const SHORTEST_RECORD = 34

/** The records of a directory, in their order; associated files (resource forks) are left out, as in Linux. */
export function directoryRecords(directory: Buffer): readonly DirectoryRecord[] {
  const records: DirectoryRecord[] = []
  let at = 0
  while (at < directory.length) {
    const length = directory.readUInt8(at)
    if (length === 0) {
      // No record crosses a sector: the rest of this one is unused.
      at = (Math.floor(at / SECTOR) + 1) * SECTOR
      continue
    }
    const room = Math.min(SECTOR - (at % SECTOR), directory.length - at)
    if (length < SHORTEST_RECORD || length > room)
      throw new Malformed('a directory record has a wrong length')
    const record = directory.subarray(at, at + length)
    at += length
    const nameEnd = 33 + record.readUInt8(32)
    if (nameEnd > length) throw new Malformed('a name is longer than its directory record')
    const flags = record.readUInt8(25)
    if (record.readUInt8(26) !== 0 || record.readUInt8(27) !== 0) {
      throw new Malformed('it holds an interleaved file')
    }
    if ((flags & HIDDEN_FROM_TREE) !== 0) continue
    records.push({
      offset: (record.readUInt32LE(2) + record.readUInt8(1)) * SECTOR,
      length: record.readUInt32LE(10),
      isDirectory: (flags & DIRECTORY) !== 0,
      isContinued: (flags & CONTINUED) !== 0,
      identifier: record.subarray(33, nameEnd),
      // The name is padded to an even position.
      systemUse: record.subarray(nameEnd + (nameEnd % 2)),
    })
  }
  return records
}

/** True for the records `.` and `..`. */
export function isSelfOrParent(identifier: Buffer): boolean {
  return identifier.length === 1 && (identifier[0] === 0 || identifier[0] === 1)
}

/** A name as plain ISO 9660 has it, without version number and the dot of an empty extension. */
export function isoName(identifier: Buffer): string {
  return identifier.toString('latin1').replace(/;\d*$/, '').replace(/\.$/, '')
}

/** A name as Joliet has it, without version number. */
export function jolietName(identifier: Buffer): string {
  return ucs2(identifier).replace(/;\d*$/, '')
}

function ucs2(bigEndian: Buffer): string {
  const even = bigEndian.subarray(0, bigEndian.length - (bigEndian.length % 2))
  return Buffer.from(even).swap16().toString('utf16le')
}

/** What the SUSP and Rock Ridge entries of one area say. */
export interface SystemUse {
  /** Only in the root's own record: the mark of SUSP, with how many bytes to skip in each other record. */
  readonly skip: number | undefined
  /** POSIX mode, file type included. */
  readonly mode: number | undefined
  /** The part of the name that this area holds. */
  readonly name: Buffer | undefined
  /** Where the directory that stands here really is (it was too deep), in bytes. */
  readonly child: number | undefined
  /** True where a relocated directory is stored: it is not shown there. */
  readonly isRelocated: boolean
  /** Where the area goes on, in bytes from the start of the image. */
  readonly next: { readonly offset: number; readonly length: number } | undefined
}

/** NM flag: the name is that of the directory itself (2) or its parent (4), and not given here. */
const NAME_IS_SPECIAL = 0x06

/** Reads one system use area or continuation area. Entries that do not matter here (times, links…) are skipped. */
export function parseSystemUse(area: Buffer): SystemUse {
  let use: SystemUse = {
    skip: undefined,
    mode: undefined,
    name: undefined,
    child: undefined,
    isRelocated: false,
    next: undefined,
  }
  for (let at = 0; at + 4 <= area.length; ) {
    const length = area.readUInt8(at + 2)
    // Padding, or bytes that are no SUSP at all: Linux stops here, too.
    if (length < 4) break
    if (at + length > area.length) throw new Malformed('a Rock Ridge entry is longer than its area')
    const entry = area.subarray(at, at + length)
    at += length
    const signature = entry.toString('latin1', 0, 2)
    if (signature === 'ST') break
    if (signature === 'SP' && length >= 7 && entry.readUInt16BE(4) === 0xbeef) {
      use = { ...use, skip: entry.readUInt8(6) }
    } else if (signature === 'PX' && length >= 12) {
      use = { ...use, mode: entry.readUInt32LE(4) }
    } else if (signature === 'NM' && length >= 5 && (entry.readUInt8(4) & NAME_IS_SPECIAL) === 0) {
      use = { ...use, name: Buffer.concat([use.name ?? Buffer.alloc(0), entry.subarray(5)]) }
    } else if (signature === 'CL' && length >= 12) {
      use = { ...use, child: entry.readUInt32LE(4) * SECTOR }
    } else if (signature === 'RE') {
      use = { ...use, isRelocated: true }
    } else if (signature === 'CE' && length >= 28) {
      const offset = entry.readUInt32LE(4) * SECTOR + entry.readUInt32LE(12)
      use = { ...use, next: { offset, length: entry.readUInt32LE(20) } }
    }
  }
  return use
}

/** Joins what a record's area says with what its continuation says. */
export function joinSystemUse(first: SystemUse, more: SystemUse): SystemUse {
  const names = [first.name, more.name].filter((name) => name !== undefined)
  return {
    skip: first.skip ?? more.skip,
    mode: first.mode ?? more.mode,
    name: names.length === 0 ? undefined : Buffer.concat(names),
    child: first.child ?? more.child,
    isRelocated: first.isRelocated || more.isRelocated,
    next: more.next,
  }
}
