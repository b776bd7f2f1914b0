import { link, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isFeatureAvailable, restoreCache, saveCache } from '@actions/cache'
import { reasonOf } from '../errors.ts'
import { sha256Of } from '../fetch/hash.ts'
import type { Log } from '../log.ts'
import { type CacheLookup, formatKey, type PieceKey, type RunCache } from '../piece-cache.ts'

interface Limits {
  /** For one restore, in milliseconds. */
  readonly restore: number
  /** For a miss: a service that needs longer to say no is not asked again. In milliseconds. */
  readonly miss: number
  /** For all saves that are under way when the build has ended, in milliseconds. */
  readonly save: number
}

const LIMITS: Limits = { restore: 180_000, miss: 15_000, save: 300_000 }

/** Saves beside each other: each packs its piece, then sends it in several streams. */
const SAVES_AT_ONCE = 2

/** So many saves refused, and none accepted, means that this run may not save at all. */
const REFUSALS = 3

/**
 * The cache of the workflow run's repository, or undefined where there is no cache service.
 * @param tempDir a directory with the same path in every run, on the file system of the build: an entry is only found
 *   again under the path that it was saved from
 */
export function serviceCache(tempDir: string, log: Log, limits: Partial<Limits> = {}): RunCache | undefined {
  if (isFeatureAvailable()) return new ServiceCache(cacheDir(tempDir), log, limits)
  log.info('There is no cache service here: nothing is kept for the next run.')
  return undefined
}

/** Where pieces lie while they come from the service or go there. */
export function cacheDir(tempDir: string): string {
  return join(tempDir, 'cks-iso-cache')
}

class ServiceCache implements RunCache {
  readonly lookups: CacheLookup[] = []
  readonly #dir: string
  readonly #log: Log
  readonly #limits: Limits
  readonly #lanes: Promise<void>[] = Array.from({ length: SAVES_AT_ONCE }, () => Promise.resolve())
  #lane = 0
  #asks = true
  #saves = true
  #refused = 0

  constructor(dir: string, log: Log, limits: Partial<Limits>) {
    this.#dir = dir
    this.#log = log
    this.#limits = { ...LIMITS, ...limits }
  }

  async restore(
    key: PieceKey,
    path: string,
    check: (path: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly note: string } | undefined> {
    const restored = this.#asks ? await this.#restore(key, path, check, signal) : undefined
    this.lookups.push({ name: key.name, hit: restored !== undefined })
    return restored
  }

  async save(key: PieceKey, path: string, note = ''): Promise<void> {
    if (!this.#saves) return
    const entry = this.#entry(key)
    try {
      await mkdir(entry, { recursive: true })
      await link(path, join(entry, 'piece'))
      await writeFile(join(entry, 'note'), note)
    } catch (thrown) {
      this.#log.notice(`The cache cannot take ${key.name}: ${reasonOf(thrown)}`)
      await rm(entry, { recursive: true, force: true })
      return
    }
    const lane = this.#lane++ % SAVES_AT_ONCE
    this.#lanes[lane] = (this.#lanes[lane] ?? Promise.resolve()).then(() => this.#store(key, entry))
  }

  async close(cancel: AbortSignal): Promise<void> {
    const inTime = await within(this.#limits.save, Promise.all(this.#lanes), cancel)
    this.#saves = false
    if (inTime === undefined && !cancel.aborted) {
      this.#log.notice(
        `The cache service did not take everything within ${seconds(this.#limits.save)}: the next run finds less.`,
      )
    }
    await rm(this.#dir, { recursive: true, force: true, maxRetries: 3 }).catch(() => {
      // Whatever is still written there goes with the runner's temporary directory.
    })
  }

  async #restore(
    key: PieceKey,
    path: string,
    check: (path: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly note: string } | undefined> {
    const text = formatKey(key)
    const entry = this.#entry(key)
    const { restore } = this.#limits
    const started = Date.now()
    try {
      const answer = await within(
        restore,
        restoreCache([entry], text, [], { timeoutInMs: restore, segmentTimeoutInMs: restore }),
        signal,
      )
      if (signal.aborted) return undefined
      if (answer === undefined) {
        this.#giveUp(`did not bring back ${key.name} within ${seconds(restore)}`)
        return undefined
      }
      if (answer.value !== text) {
        const waited = Date.now() - started
        if (waited > this.#limits.miss)
          this.#giveUp(`needed ${seconds(waited)} to say that it has no ${key.name}`)
        return undefined
      }
      const piece = join(entry, 'piece')
      const wrong = await check(piece)
      if (wrong !== undefined) throw new Error(wrong)
      const note = await readFile(join(entry, 'note'), 'utf8')
      await rename(piece, path)
      return { note }
    } catch (thrown) {
      this.#log.notice(
        `The cached copy of ${key.name} cannot be used: ${reasonOf(thrown)}. Fetching it anew.`,
      )
      return undefined
    } finally {
      await this.#remove(entry)
    }
  }

  async #store(key: PieceKey, entry: string): Promise<void> {
    try {
      if (!this.#saves) return
      const id = await saveCache([entry], formatKey(key))
      // A refusal, whatever its reason, has been told by the client; -1 is all that it returns.
      if (id >= 0) this.#refused = Number.NEGATIVE_INFINITY
      else if (++this.#refused === REFUSALS) {
        this.#saves = false
        this.#log.notice(
          `The cache refused ${REFUSALS} pieces and took none: nothing more is saved in this run.`,
        )
      }
    } catch (thrown) {
      this.#log.notice(`The cache did not take ${key.name}: ${reasonOf(thrown)}`)
    } finally {
      await this.#remove(entry)
    }
  }

  /** The path that the piece has inside and outside the service. */
  #entry(key: PieceKey): string {
    return join(this.#dir, sha256Of(formatKey(key)).slice(0, 32))
  }

  async #remove(entry: string): Promise<void> {
    await rm(entry, { recursive: true, force: true, maxRetries: 3 })
    await rmdir(this.#dir).catch(() => {
      // Others are in it, or have removed it.
    })
  }

  #giveUp(why: string): void {
    if (!this.#asks) return
    this.#asks = false
    this.#log.notice(`The cache service ${why}: going on without it.`)
  }
}

/** The outcome, or undefined when it is not there in time. */
async function within<T>(
  limit: number,
  work: Promise<T>,
  signal: AbortSignal,
): Promise<{ readonly value: T } | undefined> {
  const ends = new AbortController()
  const timeout = sleep(limit, undefined, { signal: AbortSignal.any([ends.signal, signal]) })
  try {
    return await Promise.race([work.then((value) => ({ value })), timeout.catch(() => undefined)])
  } finally {
    ends.abort()
  }
}

function seconds(milliseconds: number): string {
  return `${Math.round(milliseconds / 1000)} s`
}
