/** Some CloudStack releases find the disk by this label. */
export const VOLUME_ID = 'CDROM'

/** The programs behind the names xorriso, xorrisofs, genisoimage and mkisofs. */
export type WriterKind = 'xorriso' | 'genisoimage' | 'cdrtools'

/** A program of this machine that writes ISOs. */
export interface IsoWriter {
  readonly kind: WriterKind
  /** Its name on the PATH. */
  readonly program: string
  /** What it says of itself, such as `xorriso 1.5.4`. */
  readonly version: string
  /** True when it writes equal trees to equal bytes, at any time and in any directory. */
  readonly isReproducible: boolean
  /** The largest file that it can write, in bytes. */
  readonly largestFile: number
}

interface Kind {
  readonly isReproducible: boolean
  readonly largestFile: number
  /** Options of this kind alone. Hard links: xorriso stores their content once by itself. */
  readonly options: (epoch: number) => readonly string[]
}

const KINDS: Readonly<Record<WriterKind, Kind>> = {
  xorriso: {
    isReproducible: true,
    largestFile: Number.POSITIVE_INFINITY,
    options: (epoch) => ['--set_all_file_dates', `=${epoch}`],
  },
  genisoimage: {
    // Dates in its volume descriptor are those of the run.
    isReproducible: false,
    // At -iso-level 3, too, it stops at 4 GiB - 1; with -allow-limited-size such a file would read as empty.
    largestFile: 2 ** 32 - 2,
    options: () => ['-cache-inodes'],
  },
  cdrtools: {
    isReproducible: false,
    largestFile: Number.POSITIVE_INFINITY,
    options: () => ['-cache-inodes'],
  },
}

/** What each kind's version output names; xorriso's and genisoimage's also name mkisofs, as what they stand in for. */
const SIGNS: readonly (readonly [WriterKind, string])[] = [
  ['xorriso', 'xorriso'],
  ['genisoimage', 'genisoimage'],
  ['cdrtools', 'mkisofs'],
]

/**
 * Tells by its version output which program stands behind a name: mkisofs may be any of the three.
 * @returns undefined when it is none that is known
 */
export function identifyWriter(program: string, versionOutput: string): IsoWriter | undefined {
  const sign = SIGNS.find(([, name]) => versionOutput.includes(name))
  if (sign === undefined) return undefined
  const [kind, name] = sign
  const [, number = 'of unknown version'] = new RegExp(`${name} (\\d[\\w.]*)`).exec(versionOutput) ?? []
  const { isReproducible, largestFile } = KINDS[kind]
  return { kind, program, version: `${name} ${number}`, isReproducible, largestFile }
}

/**
 * The arguments with which a writer makes one ISO of its working directory.
 * @param epoch time of every file and of the volume, in seconds
 * @param output absolute path of the ISO
 */
export function writerArguments(writer: IsoWriter, epoch: number, output: string): readonly string[] {
  return [
    // The user's own start-up files must not change the ISO.
    ...(writer.program === 'xorriso' ? ['-no_rc', '-as', 'mkisofs'] : []),
    '-quiet',
    ...['-V', VOLUME_ID],
    ...['-iso-level', '3'],
    ...['-J', '-joliet-long', '-R', '-l'],
    ...['-uid', '0', '-gid', '0'],
    // Programs run in the C locale.
    ...['-input-charset', 'utf-8', '-output-charset', 'utf-8'],
    ...KINDS[writer.kind].options(epoch),
    ...['-o', output],
    '.',
  ]
}
