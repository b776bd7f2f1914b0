import { constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, readdir, realpath, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { Failure, fileFailure } from '../errors.ts'
import { checkIsoPaths, parentsOf } from './names.ts'

/** A file that the ISO is to hold. */
export interface TreeFile {
  /** Its path in the ISO, relative, with `/`. */
  readonly path: string
  /** The file on this machine; it is read, never changed. */
  readonly source: string
}

const DIRECTORY_MODE = 0o755

/**
 * Modes come from the place in the ISO, not from the source, so that they are the same on every machine: what
 * nodes copy to /opt/bin keeps its mode there and is meant to be run; the rest is data, readable for everyone.
 */
export function modeOf(path: string): number {
  return path.startsWith('k8s/') || path.startsWith('scripts/') ? 0o755 : 0o644
}

/**
 * Lays out what the ISO will hold. A source that has the wanted mode already becomes a hard link, any other (or
 * one on another disk) a copy; one source under two paths is one file, in the ISO too.
 * @param dir a directory that does not exist yet
 * @throws Failure when a path cannot stand on an ISO, or a source cannot be read
 */
export async function buildTree(dir: string, files: readonly TreeFile[]): Promise<void> {
  checkIsoPaths(files.map(({ path }) => path))
  await makeDirectory(dir)
  const directories = new Set(files.flatMap(({ path }) => parentsOf(path)))
  for (const directory of directories) await makeDirectory(join(dir, directory))
  const placed = new Map<string, string>()
  for (const file of files) await place(dir, file, placed)
}

async function makeDirectory(dir: string): Promise<void> {
  try {
    await mkdir(dir)
    // mkdir takes the umask into account.
    await chmod(dir, DIRECTORY_MODE)
  } catch (thrown) {
    throw fileFailure('Cannot make a directory of the ISO', dir, thrown)
  }
}

/** @param placed by source and mode, where a file stands already */
async function place(dir: string, { path, source }: TreeFile, placed: Map<string, string>): Promise<void> {
  const target = join(dir, path)
  const mode = modeOf(path)
  try {
    // A hard link to a symbolic link would be a symbolic link.
    const file = await realpath(source)
    const status = await stat(file)
    if (!status.isFile()) throw new Failure(`${source} is no file`, `Name a file for ${path} on the ISO.`)
    const key = `${mode} ${file}`
    const twin = placed.get(key)
    placed.set(key, twin ?? target)
    const from = twin ?? file
    const canLink = twin !== undefined || (status.mode & 0o7777) === mode
    if (canLink && (await isLinked(from, target))) return
    await copyFile(from, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    await chmod(target, mode)
  } catch (thrown) {
    throw fileFailure(`Cannot put ${path} on the ISO`, source, thrown)
  }
}

/** False when the file must be copied: another disk, a file system without hard links, a foreign file. */
async function isLinked(from: string, target: string): Promise<boolean> {
  return await link(from, target).then(
    () => true,
    () => false,
  )
}

/** What stands at one path of a tree. */
export interface TreeEntry {
  readonly path: string
  /** In bytes; 0 for a directory. */
  readonly size: number
  readonly isDirectory: boolean
}

/** Everything below a directory, by path. */
export async function listTree(dir: string): Promise<readonly TreeEntry[]> {
  try {
    const found = await readdir(dir, { recursive: true, withFileTypes: true })
    const entries = await Promise.all(
      found.map(async (entry) => {
        const path = join(entry.parentPath, entry.name)
        const isDirectory = entry.isDirectory()
        return {
          path: relative(dir, path),
          size: isDirectory ? 0 : (await lstat(path)).size,
          isDirectory,
        }
      }),
    )
    return entries.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  } catch (thrown) {
    throw fileFailure('Cannot read the files for the ISO', dir, thrown)
  }
}
