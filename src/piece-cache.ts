import { sha256Of } from './fetch/hash.ts'

/** What a piece is: equal keys stand for equal bytes. */
export interface PieceKey {
  /** With the version of its format, where this program makes it: a piece of another format is another piece. */
  readonly kind: 'file' | 'image-archive-1'
  /** The name that people know it by: a URL, an image reference. */
  readonly name: string
  /** What decides the bytes besides the name: a checksum, a digest, a platform. */
  readonly facts: readonly string[]
}

/** Keeps files from one run to the next. It never fails: whatever is wrong with it is a notice, and a miss. */
export interface PieceCache {
  /**
   * Brings a piece back.
   * @param path where to put it; nothing is left there on a miss
   * @param check looks at what came back, and says what is wrong with it: then that is a miss too
   * @param signal ends the waiting: that is a miss too
   * @returns the note that was saved with it; undefined on a miss
   */
  restore(
    key: PieceKey,
    path: string,
    check: (path: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly note: string } | undefined>
  /**
   * Takes a piece that is whole. Settles as soon as the file may be moved or removed; its bytes must stay.
   * @param note a short text that comes back with it
   */
  save(key: PieceKey, path: string, note?: string): Promise<void>
}

/** What became of one piece that was looked for. */
export interface CacheLookup {
  readonly name: string
  readonly hit: boolean
}

/** A cache as one run uses it. */
export interface RunCache extends PieceCache {
  /** What was looked for, in that order. */
  readonly lookups: readonly CacheLookup[]
  /**
   * Waits for what is being saved, but not for ever; afterwards nothing of this run is left beside the cache.
   * @param cancel ends the waiting
   */
  close(cancel: AbortSignal): Promise<void>
}

/** What separates the schema of these keys from any other, and from those of earlier releases. */
const SCHEMA = 'cks-iso-1'

/**
 * A key as text of at most 512 characters without commas, which is what GitHub allows: legible at its start, exact by
 * the hash at its end.
 */
export function formatKey({ kind, name, facts }: PieceKey): string {
  const legible = name.replace(/^https:\/\//, '').replace(/[^A-Za-z0-9._-]+/g, '_')
  return `${SCHEMA}-${kind}-${legible.slice(0, 200)}-${sha256Of(JSON.stringify([kind, name, ...facts]))}`
}
