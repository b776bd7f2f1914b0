import { setTimeout as sleep } from 'node:timers/promises'
import { Cancelled } from '../errors.ts'
import { PAUSES } from '../fetch/retry.ts'
import { inWords } from './words.ts'

/** How patient the calls are, in milliseconds. */
export interface Timing {
  /** Between two looks at a job, a download or a rollout. */
  readonly poll: number
  /** For one request and its answer. */
  readonly request: number
  /** Between the tries of a read, and of putting sizes back. */
  readonly pauses: readonly number[]
  /** How long to watch for the effect of a change whose answer was lost. */
  readonly settle: number
  /** How long a cancelled run may go on to put an autoscaler's sizes back. */
  readonly restore: number
  /** How often a long wait is mentioned in the log. */
  readonly remind: number
}

export const TIMING: Timing = {
  poll: 5_000,
  request: 60_000,
  pauses: PAUSES,
  settle: 30_000,
  restore: 120_000,
  remind: 60_000,
}

/** @throws Cancelled when the signal fires */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {
    throw new Cancelled('cancelled')
  })
}

/** Says how a long wait goes: at once when the text changes, else now and then. */
export class Progress {
  readonly #say: (text: string) => void
  readonly #remind: number
  readonly #since = Date.now()
  #last = ''
  #lastAt = 0

  constructor(say: (text: string) => void, remind: number) {
    this.#say = say
    this.#remind = remind
  }

  is(text: string): void {
    const now = Date.now()
    if (text === this.#last && now - this.#lastAt < this.#remind) return
    const waited = Math.round((now - this.#since) / 1000)
    this.#say(waited === 0 ? text : `${text} (after ${inWords(waited)})`)
    this.#last = text
    this.#lastAt = now
  }
}
