import {
  access,
  constants,
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Failure, fileFailure, hasCode } from './errors.ts'
import { sha256OfFile } from './fetch/hash.ts'
import { buildTree, type TreeFile } from './iso/tree.ts'
import { type IsoWriter, writeIso } from './iso/writer.ts'
import type { Log } from './log.ts'
import { formatRecord, type IsoRecord } from './record/record.ts'
import type { Workspace } from './workspace.ts'

/** What a build leaves in the output directory. */
export interface Published {
  readonly isoPath: string
  /** In bytes. */
  readonly isoSize: number
  /** 64 lower-case hexadecimal digits. */
  readonly isoSha256: string
  readonly versionsPath: string
}

/**
 * Lays out the tree, writes the ISO in a directory of its own beside the final names, and moves both files there once
 * both are whole.
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
  { workspace, log }: { readonly workspace: Workspace; readonly log: Log },
): Promise<Published> {
  const { name, record, files, writer } = parts
  const versions = join(workspace.dir, 'versions.txt')
  await writeFile(versions, formatRecord(record))
  const tree = join(workspace.dir, 'tree')
  await buildTree(tree, [...files, { path: 'versions.txt', source: versions }])

  const { isoPath, versionsPath } = pathsOf(outputDir, name)
  const staging = await mkdtemp(join(outputDir, '.cks-iso-'))
  try {
    const staged = { iso: join(staging, `${name}.iso`), versions: join(staging, 'versions.txt') }
    await writeIso({
      writer,
      tree,
      output: staged.iso,
      epoch: record.epoch,
      programs: workspace.programs,
      log,
    })
    const [isoSha256, { size: isoSize }] = await Promise.all([
      sha256OfFile(staged.iso, workspace.signal),
      stat(staged.iso),
    ])
    await copyFile(versions, staged.versions)
    workspace.signal.throwIfAborted()
    await rename(staged.iso, isoPath)
    await rename(staged.versions, versionsPath)
    return { isoPath, isoSize, isoSha256, versionsPath }
  } catch (thrown) {
    throw hasCode(thrown, 'ENOSPC') ? fileFailure('Cannot write the ISO', isoPath, thrown) : thrown
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

function pathsOf(outputDir: string, name: string): { isoPath: string; versionsPath: string } {
  return { isoPath: join(outputDir, `${name}.iso`), versionsPath: join(outputDir, `${name}.versions.txt`) }
}

/** @throws Failure when something that is no file stands where the results go, before any work is spent on them */
export async function requireReplaceable(outputDir: string, name: string): Promise<void> {
  for (const path of Object.values(pathsOf(outputDir, name))) {
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
