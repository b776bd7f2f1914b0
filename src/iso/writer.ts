import { randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { which } from '@actions/io'
import { Failure, fileFailure } from '../errors.ts'
import { type ProgramOutput, type Programs, tailOf } from '../exec.ts'
import type { Log } from '../log.ts'
import { checkIso } from './check.ts'
import { installPackage } from './install.ts'
import { type IsoWriter, identifyWriter, writerArguments } from './kinds.ts'
import { listTree, type TreeEntry } from './tree.ts'

export type { IsoWriter } from './kinds.ts'

/** In order of preference. */
const PROGRAMS: readonly string[] = ['xorriso', 'xorrisofs', 'genisoimage', 'mkisofs']

const PACKAGE = 'xorriso'

/** Of one run of a writer, in milliseconds: the slowest disks take minutes. */
const TIMEOUT = 60 * 60_000

/** The year of a file's date is one byte in ISO 9660, and some readers take it as two digits. 2100-01-01. */
const END_OF_TIME = 4_102_444_800

const ADVICE = 'Look at what the program says, or install another ISO writer (xorriso or genisoimage).'

/** What genisoimage and xorriso say of a full disk. */
const DISK_FULL = /No space left on device|exceeds free space on media/

/**
 * Finds a program that writes ISOs, and installs xorriso when there is none and it may.
 * @param isRoot whether packages can be installed without sudo
 * @throws Failure that names the package to install
 */
export async function findIsoWriter(
  programs: Programs,
  log: Log,
  isRoot: boolean = process.getuid?.() === 0,
): Promise<IsoWriter> {
  const need = `No program that writes ISOs (${PROGRAMS.join(', ')}) is on this machine`
  let writer = await detect(programs, log)
  if (writer === undefined) {
    await installPackage(PACKAGE, need, { programs, log, isRoot })
    writer = await detect(programs, log)
  }
  if (writer === undefined) {
    throw new Failure(
      `${need}, although the package ${PACKAGE} was installed`,
      `Look whether ${PACKAGE} runs from this PATH.`,
    )
  }
  if (!writer.isReproducible) {
    log.notice(
      `The ISO is written by ${writer.version}, which differs on each run: install ${PACKAGE} for byte-identical rebuilds.`,
    )
  }
  return writer
}

async function detect(programs: Programs, log: Log): Promise<IsoWriter | undefined> {
  for (const program of PROGRAMS) {
    if ((await which(program, false)) === '') continue
    const { stdout, stderr } = await programs.tryRun(program, ['--version'], {
      what: `Cannot ask ${program} for its version`,
      next: `Repair ${program}, or install the package ${PACKAGE}.`,
      timeout: 30_000,
    })
    const writer = identifyWriter(program, `${stdout}\n${stderr}`)
    if (writer !== undefined) return writer
    log.debug(`${program} is none of the ISO writers that are known here`)
  }
  return undefined
}

/** xorriso 1.5.4 now and then ends so on a busy machine; the same call then passes. Seen twice. */
const CRASH = /UNIX-SIGNAL:\s+SIGSEGV/

export interface IsoRequest {
  readonly writer: IsoWriter
  /** The directory whose content becomes the ISO, as buildTree lays it out. */
  readonly tree: string
  /** Where the ISO goes; its directory is made if need be. */
  readonly output: string
  /** Time of every file and of the volume, in seconds since 1970. */
  readonly epoch: number
  readonly programs: Programs
  readonly log: Log
}

/**
 * Writes a directory to an ISO with Rock Ridge, Joliet and the volume id that CloudStack looks for. With xorriso
 * the bytes depend on the tree, the epoch and the version of xorriso alone. The finished ISO is read back and
 * compared with the tree before it gets its final name.
 * @throws Failure when it cannot be written or does not hold what it should; nothing is left behind then
 */
export async function writeIso({ writer, tree, output, epoch, programs, log }: IsoRequest): Promise<void> {
  const final = resolve(output)
  const what = `Cannot write the ISO ${final}`
  if (!Number.isInteger(epoch) || epoch <= 0 || epoch >= END_OF_TIME) {
    throw new Failure(
      `${what}: ${epoch} is no time for its files`,
      'Give SOURCE_DATE_EPOCH as whole seconds since 1970, before the year 2100.',
    )
  }
  const entries = await listTree(tree)
  requireSizes(entries, writer)

  const partial = join(dirname(final), `.cks-iso-${randomUUID()}.partial`)
  await reserve(final, partial)
  try {
    const args = writerArguments(writer, epoch, partial)
    log.debug(`${writer.program} ${args.join(' ')}`)
    const write = async (): Promise<ProgramOutput> =>
      await programs.tryRun(writer.program, args, {
        what,
        next: ADVICE,
        timeout: TIMEOUT,
        cwd: tree,
        // An inherited value may be malformed; xorriso dates the volume by it. No start-up file changes the ISO.
        env: { SOURCE_DATE_EPOCH: String(epoch), MKISOFSRC: '/dev/null' },
      })
    let written = await write()
    if (written.exitCode !== 0 && CRASH.test(written.stderr)) {
      log.notice(`${writer.version} crashed while it wrote ${final}; trying once more.`)
      await rm(partial, { force: true })
      await reserve(final, partial)
      written = await write()
    }
    const { exitCode, stderr, stdout } = written
    if (exitCode !== 0) throw writeFailure(what, writer, exitCode, `${stdout}\n${stderr}`)
    await checkIso(partial, entries, `${final}, as ${writer.version} wrote it,`)
    await rename(partial, final).catch((thrown: unknown) => {
      throw fileFailure('Cannot give the ISO its name', final, thrown)
    })
  } catch (thrown) {
    await rm(partial, { force: true })
    throw thrown
  }
}

function requireSizes(entries: readonly TreeEntry[], writer: IsoWriter): void {
  const large = entries.filter(({ size }) => size > writer.largestFile)
  if (large.length === 0) return
  const list = large.map(({ path, size }) => `${path} (${size} bytes)`).join(', ')
  throw new Failure(
    `${writer.version} cannot write files of 4 GiB or more: ${list}`,
    'Install the package xorriso, which can.',
  )
}

/** Makes the output's directory and the partial file, so that a fault of theirs comes with its system error. */
async function reserve(final: string, partial: string): Promise<void> {
  try {
    await mkdir(dirname(final), { recursive: true })
    await (await open(partial, 'wx')).close()
  } catch (thrown) {
    throw fileFailure('Cannot write the ISO', final, thrown)
  }
}

function writeFailure(what: string, writer: IsoWriter, exitCode: number, output: string): Failure {
  const reason = `${writer.version} exited with ${exitCode}: ${tailOf(output) || 'no output'}`
  if (DISK_FULL.test(output)) {
    return new Failure(
      `${what}: the disk is full: ${reason}`,
      'Free space there, or point output-dir at a larger disk.',
    )
  }
  return new Failure(`${what}: ${reason}`, ADVICE)
}
