import { Failure } from '../errors.ts'
import type { Programs } from '../exec.ts'
import type { Log } from '../log.ts'
import { type Mirror, mirroredUrl } from '../request/mirrors.ts'
import { PAUSES, PassingFault, withRetries } from './retry.ts'

/** A reference of a remote repository: `refs/tags/v1.2.3` and the commit it names. */
export interface RemoteRef {
  readonly name: string
  /** 40 hexadecimal digits; of an annotated tag, the commit and not the tag object. */
  readonly commit: string
}

/** Longest time for one listing, in milliseconds. */
const TIMEOUT = 60_000

/** What git says when trying again cannot help. */
const PERMANENT =
  /not found|authentication failed|could not read username|does not appear to be a git repository|403/i

/**
 * Lists references of a remote repository with `git ls-remote`, which needs no API token and knows no rate limit
 * of an API.
 * @param repository https URL of the repository
 * @param patterns what to list, such as `refs/tags/*`
 * @throws Failure naming the repository and the input
 */
export async function listRefs(
  repository: string,
  patterns: readonly string[],
  context: {
    readonly programs: Programs
    readonly mirrors: readonly Mirror[]
    readonly log: Log
    readonly signal: AbortSignal
    /** The input that makes the listing needless, where there is one. */
    readonly input?: string
    readonly pauses?: readonly number[]
  },
): Promise<readonly RemoteRef[]> {
  const from = mirroredUrl(context.mirrors, repository)
  const what = `Cannot list the releases of ${repository}${from === repository ? '' : ` (by the mirror ${from})`}`
  const instead = context.input === undefined ? '' : `set ${context.input} to an exact version, or `
  const next = `Run again; if it stays, ${instead}name a mirror of ${repository} in mirrors. It takes git on this machine.`
  const attempt = async (): Promise<string> => {
    const output = await context.programs.tryRun('git', ['ls-remote', '--', from, ...patterns], {
      what,
      next,
      timeout: TIMEOUT,
      // A repository that asks for a password is an error here, not a question.
      env: { GIT_TERMINAL_PROMPT: '0', GIT_ASKPASS: 'true' },
    })
    if (output.exitCode === 0) return output.stdout
    const reason = output.stderr.trim()
    if (PERMANENT.test(reason)) throw new Failure(`${what}: ${reason}`, next)
    throw new PassingFault(reason)
  }
  try {
    const pauses = context.pauses ?? PAUSES
    return parseRefs(await withRetries(attempt, { what, signal: context.signal, log: context.log, pauses }))
  } catch (thrown) {
    if (!(thrown instanceof PassingFault)) throw thrown
    throw new Failure(`${what}: ${thrown.message}`, next, { cause: thrown })
  }
}

/**
 * Reads the rows of `git ls-remote`. A peeled row (`^{}`) is no reference of its own: it gives the commit that an
 * annotated tag names.
 */
export function parseRefs(output: string): readonly RemoteRef[] {
  const commits = new Map<string, string>()
  for (const line of output.split('\n')) {
    const match = /^([0-9a-f]{40})\t(\S+?)(\^\{\})?$/.exec(line.trimEnd())
    if (match?.[1] === undefined || match[2] === undefined) continue
    if (match[3] !== undefined || !commits.has(match[2])) commits.set(match[2], match[1])
  }
  return [...commits].map(([name, commit]) => ({ name, commit }))
}
