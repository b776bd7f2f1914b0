import { describe, expect, it } from 'vitest'
import {
  directoryRecords,
  isoName,
  joinSystemUse,
  jolietName,
  Malformed,
  parseDescriptor,
  parseSystemUse,
  SECTOR,
} from '../../src/iso/records.ts'

function record(name: string, more: { flags?: number; lba?: number; length?: number } = {}): Buffer {
  const identifier = Buffer.from(name, 'latin1')
  const size = 33 + identifier.length + ((33 + identifier.length) % 2)
  const bytes = Buffer.alloc(size)
  bytes.writeUInt8(size, 0)
  bytes.writeUInt32LE(more.lba ?? 20, 2)
  bytes.writeUInt32LE(more.length ?? 5, 10)
  bytes.writeUInt8(more.flags ?? 0, 25)
  bytes.writeUInt8(identifier.length, 32)
  identifier.copy(bytes, 33)
  return bytes
}

function entry(signature: string, ...data: readonly number[]): Buffer {
  return Buffer.from([...Buffer.from(signature), data.length + 4, 1, ...data])
}

describe('the records of a directory', () => {
  it('are read over unused ends of sectors', () => {
    const directory = Buffer.alloc(2 * SECTOR)
    record('A.;1').copy(directory, 0)
    record('B.;1', { lba: 7, length: 9 }).copy(directory, SECTOR)
    const [a, b, ...more] = directoryRecords(directory)
    expect(more).toEqual([])
    expect(a).toMatchObject({ offset: 20 * SECTOR, length: 5, isDirectory: false, isContinued: false })
    expect(b).toMatchObject({ offset: 7 * SECTOR, length: 9 })
  })

  it('tell directories and files of several parts, and leave resource forks out', () => {
    const directory = Buffer.concat([
      record('D', { flags: 2 }),
      record('F.;1', { flags: 0x80 }),
      record('F.;1', { flags: 4 }),
    ])
    expect(directoryRecords(directory)).toMatchObject([
      { isDirectory: true, isContinued: false },
      { isDirectory: false, isContinued: true },
    ])
  })

  it.each([
    ['too short a record', Buffer.concat([Buffer.from([10]), Buffer.alloc(40)]), 'wrong length'],
    ['a record over the end', Buffer.concat([Buffer.from([200]), Buffer.alloc(60)]), 'wrong length'],
    [
      'a record over the end of a sector',
      Buffer.concat([
        ...Array.from({ length: 48 }, () => record('ABCDEFGH')),
        Buffer.from([100]),
        Buffer.alloc(SECTOR),
      ]),
      'wrong length',
    ],
    ['a name over the end of its record', record('A').fill(99, 32, 33), 'longer than its directory record'],
    ['an interleaved file', record('A').fill(1, 26, 27), 'interleaved'],
  ])('are refused with %s', (_, directory, reason) => {
    expect(() => directoryRecords(directory)).toThrow(Malformed)
    expect(() => directoryRecords(directory)).toThrow(reason)
  })

  it('have names without version and empty extension', () => {
    expect(isoName(Buffer.from('README.;1'))).toBe('README')
    expect(isoName(Buffer.from('A.TAR;1'))).toBe('A.TAR')
    expect(jolietName(Buffer.from('a_é;1', 'utf16le').swap16())).toBe('a_é')
    expect(jolietName(Buffer.from([0, 0x61, 0]))).toBe('a')
  })
})

describe('the Rock Ridge entries of a record', () => {
  it('are joined over several areas', () => {
    const long = parseSystemUse(
      Buffer.concat([
        entry('NM', 1, 0x61, 0x62),
        entry('NM', 1, 0x63),
        entry('CE', 3, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0),
      ]),
    )
    expect(long.next).toEqual({ offset: 3 * SECTOR + 16, length: 40 })
    const more = parseSystemUse(
      Buffer.concat([
        entry('NM', 0, 0x64),
        entry('PX', 0xa4, 0x81, 0, 0, 0, 0, 0, 0),
        entry('SL', 0, 8, 0),
        entry('ST'),
        entry('RE'),
      ]),
    )
    const joined = joinSystemUse(long, more)
    expect(joined.name?.toString()).toBe('abcd')
    expect(joined.mode).toBe(0o100644)
    expect([joined.next, joined.isRelocated]).toEqual([undefined, false])
  })

  it('tell where a directory was moved from and to', () => {
    expect(parseSystemUse(entry('CL', 9, 0, 0, 0, 0, 0, 0, 9)).child).toBe(9 * SECTOR)
    expect(parseSystemUse(entry('RE')).isRelocated).toBe(true)
  })

  it('may be followed by padding, and may be other things', () => {
    expect(parseSystemUse(Buffer.from([0, 0, 0, 0, 0])).name).toBeUndefined()
    expect(parseSystemUse(entry('NM', 2)).name).toBeUndefined()
    expect(parseSystemUse(Buffer.alloc(3)).name).toBeUndefined()
  })

  it('are refused over the end of their area', () => {
    expect(() => parseSystemUse(Buffer.from([0x4e, 0x4d, 50, 1, 0, 0x61]))).toThrow('longer than its area')
  })
})

describe('a volume descriptor', () => {
  function descriptor(change: (sector: Buffer) => void): Buffer {
    const sector = Buffer.alloc(SECTOR)
    sector.writeUInt8(1, 0)
    sector.write('CD001', 1)
    sector.write('CDROM'.padEnd(32), 40)
    sector.writeUInt32LE(100, 80)
    sector.writeUInt16LE(SECTOR, 128)
    record('\0', { flags: 2, length: SECTOR }).copy(sector, 156)
    change(sector)
    return sector
  }

  it('names the volume, its size and its root', () => {
    expect(parseDescriptor(descriptor(() => {}))).toMatchObject({
      kind: 'primary',
      id: 'CDROM',
      size: 100 * SECTOR,
      root: { offset: 20 * SECTOR },
    })
  })

  it('of another type is passed over', () => {
    expect(parseDescriptor(descriptor((sector) => sector.writeUInt8(0, 0)))).toBeUndefined()
    expect(parseDescriptor(descriptor((sector) => sector.writeUInt8(2, 0)))).toBeUndefined()
    expect(parseDescriptor(descriptor((sector) => sector.writeUInt8(255, 0)))).toBe('end')
  })

  it.each([
    ['without its mark', (sector: Buffer) => sector.fill(0, 1, 6), 'CD001'],
    ['with other blocks', (sector: Buffer) => sector.writeUInt16LE(512, 128), '512'],
    ['with a file as root', (sector: Buffer) => sector.fill(0, 181, 182), 'no root directory'],
    ['without a root', (sector: Buffer) => sector.fill(0, 156, 190), 'no root directory'],
  ])('%s is refused', (_, change, reason) => {
    expect(() => parseDescriptor(descriptor(change))).toThrow(reason)
  })
})
