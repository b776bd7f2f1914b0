import { describe, expect, it } from 'vitest'
import { differences } from '../../src/iso/check.ts'
import { type IsoWriter, identifyWriter, writerArguments } from '../../src/iso/kinds.ts'

/** What the programs print, both outputs joined. */
const VERSION_OUTPUTS = {
  xorriso: `xorriso 1.5.4 : RockRidge filesystem manipulator, libburnia project.

xorriso 1.5.4
ISO 9660 Rock Ridge filesystem manipulator and CD/DVD/BD burn program`,
  xorrisofs:
    'mkisofs 2.01-Emulation Copyright (C) 2019 see libburnia-project.org xorriso\n' +
    'xorriso 1.5.4 : RockRidge filesystem manipulator, libburnia project.\n',
  xorrisofsAlone: 'mkisofs 2.01-Emulation Copyright (C) 2019 see libburnia-project.org xorriso',
  genisoimage: 'genisoimage 1.1.11 (Linux)\n',
  cdrtools: 'mkisofs 3.02a09 (x86_64-unknown-linux-gnu) Copyright (C) 1993-1997 Eric Youngdale (C)',
}

function writer(program: string, output: string): IsoWriter {
  const found = identifyWriter(program, output)
  if (found === undefined) throw new Error(`not identified: ${output}`)
  return found
}

describe('an ISO writer', () => {
  it.each([
    ['xorriso', VERSION_OUTPUTS.xorriso, 'xorriso', 'xorriso 1.5.4'],
    ['xorrisofs', VERSION_OUTPUTS.xorrisofs, 'xorriso', 'xorriso 1.5.4'],
    ['mkisofs', VERSION_OUTPUTS.xorrisofs, 'xorriso', 'xorriso 1.5.4'],
    ['mkisofs', VERSION_OUTPUTS.xorrisofsAlone, 'xorriso', 'xorriso of unknown version'],
    ['mkisofs', VERSION_OUTPUTS.genisoimage, 'genisoimage', 'genisoimage 1.1.11'],
    ['genisoimage', VERSION_OUTPUTS.genisoimage, 'genisoimage', 'genisoimage 1.1.11'],
    ['mkisofs', VERSION_OUTPUTS.cdrtools, 'cdrtools', 'mkisofs 3.02a09'],
  ])('called %s is told by its version output', (program, output, kind, version) => {
    expect(identifyWriter(program, output)).toMatchObject({ program, kind, version })
  })

  it('that is something else is not taken', () => {
    expect(identifyWriter('mkisofs', 'BusyBox v1.36')).toBeUndefined()
  })

  it('promises byte-identical ISOs and large files only where that is so', () => {
    const xorriso = writer('xorriso', VERSION_OUTPUTS.xorriso)
    const genisoimage = writer('genisoimage', VERSION_OUTPUTS.genisoimage)
    expect([xorriso.isReproducible, genisoimage.isReproducible]).toEqual([true, false])
    expect(xorriso.largestFile).toBe(Number.POSITIVE_INFINITY)
    expect(genisoimage.largestFile).toBe(4_294_967_294)
  })

  const common =
    '-quiet -V CDROM -iso-level 3 -J -joliet-long -R -l -uid 0 -gid 0 -input-charset utf-8 -output-charset utf-8'

  it.each([
    [
      'xorriso',
      VERSION_OUTPUTS.xorriso,
      `-no_rc -as mkisofs ${common} --set_all_file_dates =1700000000 -o /o/x.iso .`,
    ],
    ['mkisofs', VERSION_OUTPUTS.xorrisofs, `${common} --set_all_file_dates =1700000000 -o /o/x.iso .`],
    ['genisoimage', VERSION_OUTPUTS.genisoimage, `${common} -cache-inodes -o /o/x.iso .`],
    ['mkisofs', VERSION_OUTPUTS.cdrtools, `${common} -cache-inodes -o /o/x.iso .`],
  ])('called %s gets the options of its kind', (program, output, expected) => {
    const args = writerArguments(writer(program, output), 1_700_000_000, '/o/x.iso')
    expect(args.join(' ')).toBe(expected)
  })
})

describe('the difference of a tree and an ISO', () => {
  const file = { path: 'a', size: 1, isDirectory: false }
  const directory = { path: 'd', size: 0, isDirectory: true }

  it('is nothing when they agree, in any order', () => {
    expect(differences([file, directory], [directory, file])).toEqual([])
  })

  it('names each entry that is missing, changed or too many', () => {
    const found = [
      { ...file, size: 2 },
      { ...directory, isDirectory: false },
      { ...file, path: 'b' },
    ]
    expect(differences([file, directory, { ...file, path: 'c' }], found)).toEqual([
      'a has 2 instead of 1 bytes',
      'd is of another kind',
      'c is missing',
      'b was not asked for',
    ])
  })
})
