import { setTimeout as sleep } from 'node:timers/promises'
import { Cancelled, reasonOf } from '../errors.ts'
import type { Log } from '../log.ts'

/** A fault that may be gone a moment later: a server error, a rate limit, a connection that broke. */
export class PassingFault extends Error {
  override readonly name = 'PassingFault'
  /** How long the server asked to wait (Retry-After), in milliseconds. */
  readonly retryAfter: number | undefined

  constructor(message: string, retryAfter?: number, options?: ErrorOptions) {
    super(message, options)
    this.retryAfter = retryAfter
  }
}

/** Pauses before the second, third and fourth try, in milliseconds. */
export const PAUSES: readonly number[] = [1_000, 5_000, 20_000]

/** A server that asks for more than this is not waited for: the user hears at once. In milliseconds. */
const LONGEST_RETRY_AFTER = 120_000

/**
 * Calls `attempt` until it settles with anything but a {@link PassingFault}, at most once more than there are
 * pauses. A pause grows to what the server asked for.
 * @throws whatever the last attempt threw; Cancelled when the signal fires
 */
export async function withRetries<T>(
  attempt: () => Promise<T>,
  options: {
    readonly what: string
    readonly signal: AbortSignal
    readonly log: Log
    readonly pauses: readonly number[]
  },
): Promise<T> {
  for (const pause of options.pauses) {
    try {
      return await attempt()
    } catch (thrown) {
      if (!(thrown instanceof PassingFault)) throw thrown
      const wait = Math.max(pause, thrown.retryAfter ?? 0)
      if (wait > LONGEST_RETRY_AFTER) throw thrown
      options.log.info(`${options.what}: ${reasonOf(thrown)}; again in ${Math.ceil(wait / 1000)} s`)
      await sleep(wait, undefined, { signal: options.signal }).catch(() => {
        throw new Cancelled(`${options.what}: cancelled`)
      })
    }
  }
  return await attempt()
}

/**
 * Reads a Retry-After header: seconds, or an HTTP date (RFC 9110, 10.2.3).
 * @returns milliseconds from now, or undefined when it is absent or unreadable
 */
export function parseRetryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d+$/.test(header.trim())) return Number(header.trim()) * 1000
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
