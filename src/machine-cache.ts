import {
  constants,
  copyFile,
  link,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { cacheDir, find } from '@actions/tool-cache'
import { hostArch } from './arch.ts'
import { reasonOf } from './errors.ts'
import { sha256Of } from './fetch/hash.ts'
import type { Log } from './log.ts'
import { type CacheLookup, formatKey, type PieceKey, type RunCache } from './piece-cache.ts'

/** The folder of all pieces in the tool cache. */
const TOOL = 'cks-iso'

/** A piece that no run has used for so long is removed, in milliseconds: 30 days. */
const LONGEST_UNUSED = 30 * 24 * 60 * 60_000

/**
 * A cache for machines that stay: the tool cache (@actions/tool-cache, RUNNER_TOOL_CACHE). It holds what was used in
 * the last 30 days.
 * @param tempDir an existing directory, for what is on its way into the cache
 * @returns undefined where RUNNER_TOOL_CACHE does not say where the tool cache is
 */
export function machineCache(tempDir: string, log: Log): RunCache | undefined {
  const tools = process.env.RUNNER_TOOL_CACHE
  if (tools) return new MachineCache(join(tools, TOOL), tempDir, log)
  log.info('There is no tool cache here (RUNNER_TOOL_CACHE): nothing is kept for the next run.')
  return undefined
}

class MachineCache implements RunCache {
  readonly lookups: CacheLookup[] = []
  readonly #root: string
  readonly #tempDir: string
  readonly #log: Log

  constructor(root: string, tempDir: string, log: Log) {
    this.#root = root
    this.#tempDir = tempDir
    this.#log = log
  }

  async restore(
    key: PieceKey,
    path: string,
    check: (path: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly note: string } | undefined> {
    const restored = await this.#restore(key, path, check, signal)
    this.lookups.push({ name: key.name, hit: restored !== undefined })
    return restored
  }

  async save(key: PieceKey, path: string, note = ''): Promise<void> {
    const version = versionOf(key)
    const staged = await mkdtemp(join(this.#tempDir, 'cks-iso-keep-'))
    try {
      await link(path, join(staged, 'piece'))
      await writeFile(join(staged, 'note'), note)
      await cacheDir(staged, TOOL, version, hostArch())
    } catch (thrown) {
      this.#log.notice(`The tool cache cannot take ${key.name}: ${reasonOf(thrown)}`)
      // Without its mark of completeness it would never be found, and only take space.
      await remove(join(this.#root, version))
    } finally {
      await remove(staged)
    }
  }

  async close(): Promise<void> {
    const versions = await readdir(this.#root).catch(() => [])
    for (const version of versions) {
      const entry = join(this.#root, version)
      // A piece without the mark is on its way, or was given up.
      const used = await stat(markOf(entry)).catch(() => stat(entry).catch(() => undefined))
      if (used !== undefined && Date.now() - used.mtimeMs > LONGEST_UNUSED) await remove(entry)
    }
  }

  async #restore(
    key: PieceKey,
    path: string,
    check: (path: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly note: string } | undefined> {
    const version = versionOf(key)
    const entry = join(this.#root, version)
    try {
      const kept = find(TOOL, version, hostArch())
      if (kept === '') return undefined
      // A copy, since the build goes on to change modes; without new blocks where the file system can share them.
      await copyFile(join(kept, 'piece'), path, constants.COPYFILE_FICLONE)
      const note = await readFile(join(kept, 'note'), 'utf8')
      const wrong = await check(path)
      if (wrong !== undefined) throw new Error(wrong)
      const now = new Date()
      await utimes(markOf(entry), now, now)
      return { note }
    } catch (thrown) {
      await remove(path)
      if (signal.aborted) return undefined
      await remove(entry)
      this.#log.notice(
        `The copy of ${key.name} in the tool cache cannot be used: ${reasonOf(thrown)}. Fetching it anew.`,
      )
      return undefined
    }
  }
}

/** The tool cache names everything by a semantic version: here one that follows from the key. */
function versionOf(key: PieceKey): string {
  return `1.0.0-k${sha256Of(formatKey(key)).slice(0, 40)}`
}

/** What the tool cache writes beside an entry once it is whole. */
function markOf(entry: string): string {
  return join(entry, `${hostArch()}.complete`)
}

async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {
    // Whoever cannot be removed now goes at a later close.
  })
}
