/** Where a file-bound warning points: a path or URL and, where known, a line (1-based). */
export interface Place {
  readonly file: string
  readonly line?: number
}

/**
 * What a stage may tell the user. The command line prints it, the action turns it into annotations; a stage
 * never learns which. `warning` is for what the user may live with, `notice` for a decision made for them.
 */
export interface Log {
  info(message: string): void
  notice(message: string): void
  warning(message: string, place?: Place): void
  debug(message: string): void
  /** Runs a part of the work, and shows what it tells as one group. Groups are not nested. */
  group<T>(name: string, body: () => Promise<T>): Promise<T>
}
