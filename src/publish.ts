import {
  access,
  constants,
  copyFile,
  lstat,
  mkdir,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Failure, fileFailure, hasCode } from './errors.ts'
import { buildTree, type TreeFile } from './iso/tree.ts'
import { type IsoWriter, writeIso } from './iso/writer.ts'
import type { Log } from './log.ts'
import { CHECKSUMS, checksumFile, checksumsOf } from './record/checksums.ts'
import { formatRecord, type IsoRecord } from './record/record.ts'
import { formatSbom } from './record/sbom.ts'
import { together } from './together.ts'
import type { Workspace } from './workspace.ts'

/** What a build leaves in the output directory. */
export interface Published {
  readonly isoPath: string
  /** In bytes. */
  readonly isoSize: number
  /** 64 lower-case hexadecimal digits. */
  readonly isoSha256: string
  readonly versionsPath: string
  /** The .sha256, .sha512 and .md5 of the ISO: CloudStack takes a checksum at registration. */
  readonly checksumPaths: readonly string[]
  /** The bill of materials, CycloneDX in JSON. */
  readonly sbomPath: string
}

/**
 * Lays out the tree, writes the ISO in a directory of its own beside the final names, and moves all files there once
 * all are whole and the ISO has passed.
 * @param check throws when the ISO must not come out
 */
export async function publish(
  parts: {
    /** What the files are named by. */
    readonly name: string
    readonly record: IsoRecord
    /** Everything but versions.txt. */
    readonly files: readonly TreeFile[]
    readonly writer: IsoWriter
  },
  outputDir: string,
  check: (isoPath: string) => Promise<void>,
  { workspace, log }: { readonly workspace: Workspace; readonly log: Log },
): Promise<Published> {
  const { name, record, files, writer } = parts
  const versions = join(workspace.dir, 'versions.txt')
  await writeFile(versions, formatRecord(record))
  const tree = join(workspace.dir, 'tree')
  await buildTree(tree, [...files, { path: 'versions.txt', source: versions }])

  const final = pathsOf(outputDir, name)
  const { programs, signal } = workspace
  const staging = stagingDir(outputDir, programs.id)
  await mkdir(staging, { mode: 0o700 })
  try {
    const staged = pathsOf(staging, name)
    const { isoPath } = staged
    await log.group('Write the ISO', async () =>
      writeIso({ writer, tree, output: isoPath, epoch: record.epoch, programs, log }),
    )
    const [checksums, { size: isoSize }] = await log.group('Check the ISO', async () =>
      together([checksumsOf(isoPath, signal), stat(isoPath), check(isoPath)]),
    )
    await copyFile(versions, staged.versionsPath)
    await writeFile(staged.sbomPath, formatSbom(record, { name: `${name}.iso`, sha256: checksums.sha256 }))
    for (const kind of CHECKSUMS) {
      await writeFile(checksumPath(staging, name, kind), checksumFile(checksums[kind], `${name}.iso`))
    }
    signal.throwIfAborted()
    // The ISO goes last: where it is, the rest is.
    for (const kind of CHECKSUMS) {
      await rename(checksumPath(staging, name, kind), checksumPath(outputDir, name, kind))
    }
    await rename(staged.sbomPath, final.sbomPath)
    await rename(staged.versionsPath, final.versionsPath)
    await rename(isoPath, final.isoPath)
    return { ...final, isoSize, isoSha256: checksums.sha256 }
  } catch (thrown) {
    throw hasCode(thrown, 'ENOSPC') ? fileFailure('Cannot write the ISO', final.isoPath, thrown) : thrown
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

/** Where a run makes its results, to move them to their names when all are whole. */
export function stagingDir(outputDir: string, runId: string): string {
  return join(outputDir, `.cks-iso-${runId}`)
}

type Paths = Pick<Published, 'isoPath' | 'versionsPath' | 'checksumPaths' | 'sbomPath'>

function pathsOf(dir: string, name: string): Paths {
  return {
    isoPath: join(dir, `${name}.iso`),
    versionsPath: join(dir, `${name}.versions.txt`),
    // The extension by which tools know CycloneDX in JSON.
    sbomPath: join(dir, `${name}.cdx.json`),
    checksumPaths: CHECKSUMS.map((kind) => checksumPath(dir, name, kind)),
  }
}

function checksumPath(dir: string, name: string, kind: (typeof CHECKSUMS)[number]): string {
  return join(dir, `${name}.iso.${kind}`)
}

/** @throws Failure when something that is no file stands where the results go, before any work is spent on them */
export async function requireReplaceable(outputDir: string, name: string): Promise<void> {
  const { isoPath, versionsPath, checksumPaths, sbomPath } = pathsOf(outputDir, name)
  for (const path of [isoPath, versionsPath, sbomPath, ...checksumPaths]) {
    const there = await lstat(path).catch(() => undefined)
    if (there !== undefined && !there.isFile() && !there.isSymbolicLink()) {
      throw new Failure(
        `${path} is there already, and is no file that a build could replace`,
        'Move it away, or choose another build-name or output-dir.',
      )
    }
  }
}

/**
 * Makes the output directory where it is missing.
 * @returns what was made, the deepest first, for a build that fails to take back
 * @throws Failure when files cannot be made in it, before any work is spent on them
 */
export async function requireWritable(dir: string): Promise<readonly string[]> {
  try {
    const made = await makeDirectory(dir)
    await access(dir, constants.W_OK | constants.X_OK)
    return made
  } catch (thrown) {
    throw fileFailure('output-dir cannot be written to', dir, thrown)
  }
}

/**
 * Makes a directory and what is missing above it. Node's recursive mkdir never ends where a parent exists and yet takes
 * no entries, as /proc does.
 */
async function makeDirectory(dir: string): Promise<readonly string[]> {
  try {
    await mkdir(dir)
    return [dir]
  } catch (thrown) {
    if (hasCode(thrown, 'EEXIST') && (await stat(dir)).isDirectory()) return []
    if (!hasCode(thrown, 'ENOENT')) throw thrown
    const above = await makeDirectory(dirname(dir))
    await mkdir(dir)
    return [dir, ...above]
  }
}

/** Removes directories that a failed build made, as long as nothing is in them. */
export async function removeEmpty(dirs: readonly string[]): Promise<void> {
  for (const dir of dirs) {
    const isGone = await rmdir(dir).then(
      () => true,
      () => false,
    )
    if (!isGone) return
  }
}
