import { randomUUID } from 'node:crypto'
import { access, constants, readdir, readFile, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { exec, getExecOutput } from '@actions/exec'
import { Cancelled, Failure, reasonOf } from './errors.ts'

/** Set in every process that a build starts, so that all of them, grandchildren too, can be found again. */
const MARKER = 'CKS_ISO_RUN'

/** How much of a program's error output an error message quotes. */
const QUOTED_LINES = 12

export interface RunOptions {
  /** What the run is for, as the start of an error message: `Cannot list the tags of …`. */
  readonly what: string
  /** What the user does when it fails. */
  readonly next: string
  /** Longest time allowed, in milliseconds. */
  readonly timeout: number
  /** Added to the environment of the program. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

export interface ProgramOutput {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** A long-running program. */
export interface Daemon {
  /** Settles when the program has ended, with its exit code. */
  readonly ended: Promise<number>
  /** What it last wrote to its error output. */
  tail(): string
}

/**
 * Runs other programs: never through a shell, with C locale, ended together with the build. One instance serves
 * one build. A process is found again by a marker in its environment (as the Actions runner finds orphans),
 * since @actions/exec gives out no process id.
 */
export class Programs {
  readonly #signal: AbortSignal
  readonly #id: string

  /** @param signal ends every program when it fires */
  constructor(signal: AbortSignal, id: string = randomUUID()) {
    this.#signal = signal
    this.#id = id
  }

  /** The marker's value, with which {@link killMarked} finds what this build started. */
  get id(): string {
    return this.#id
  }

  /**
   * Runs a program to its end.
   * @throws Failure when it is missing, exits non-zero or runs too long; Cancelled when the build was cancelled
   */
  async run(program: string, args: readonly string[], options: RunOptions): Promise<ProgramOutput> {
    const output = await this.tryRun(program, args, options)
    if (output.exitCode !== 0) {
      throw new Failure(
        `${options.what}: ${program} exited with ${output.exitCode}: ${tailOf(output.stderr) || tailOf(output.stdout) || 'no output'}`,
        options.next,
      )
    }
    return output
  }

  /** As {@link run}, but a non-zero exit code is returned, for programs whose code is an answer. */
  async tryRun(program: string, args: readonly string[], options: RunOptions): Promise<ProgramOutput> {
    this.#signal.throwIfAborted()
    const path = await findProgram(program, options)
    const marker = `${this.#id}.${randomUUID()}`
    const ends = new AbortController()
    const running = getExecOutput(quoted(path), [...args], {
      silent: true,
      ignoreReturnCode: true,
      env: this.#environment(marker, options.env),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    })
    const timeout = sleep(options.timeout, undefined, { signal: ends.signal, ref: false })
    const cancelled = aborted(this.#signal, ends.signal)
    try {
      const first = await Promise.race([running, timeout.then(() => 'timeout' as const), cancelled])
      if (typeof first === 'object') return first
      await killMarked(marker)
      if (first === 'cancelled') throw new Cancelled(`${options.what}: cancelled`)
      throw new Failure(
        `${options.what}: ${program} did not end within ${Math.round(options.timeout / 1000)} s and was stopped`,
        options.next,
      )
    } catch (thrown) {
      if (thrown instanceof Failure || thrown instanceof Cancelled) throw thrown
      throw new Failure(`${options.what}: ${program}: ${reasonOf(thrown)}`, options.next, { cause: thrown })
    } finally {
      ends.abort()
      await Promise.allSettled([running, timeout, cancelled])
    }
  }

  /** Starts a program that runs until {@link stopAll}. */
  async start(
    program: string,
    args: readonly string[],
    options: Omit<RunOptions, 'timeout'>,
  ): Promise<Daemon> {
    this.#signal.throwIfAborted()
    const path = await findProgram(program, options)
    const lines: string[] = []
    const ended = exec(quoted(path), [...args], {
      silent: true,
      ignoreReturnCode: true,
      env: this.#environment(`${this.#id}.daemon`, options.env),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      listeners: {
        errline: (line) => {
          lines.push(line)
          if (lines.length > QUOTED_LINES) lines.shift()
        },
      },
    })
    return { ended, tail: () => lines.join('\n') }
  }

  /** Ends every program that is still running. */
  async stopAll(): Promise<void> {
    await killMarked(this.#id)
  }

  #environment(marker: string, more: Readonly<Record<string, string>> = {}): Record<string, string> {
    const inherited = Object.entries(process.env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    return { ...Object.fromEntries(inherited), LC_ALL: 'C', ...more, [MARKER]: marker }
  }
}

/**
 * Ends every process whose marker starts with the given id: first asked (SIGTERM), after two seconds made to
 * (SIGKILL). Needs /proc; processes of other users are left alone.
 */
export async function killMarked(id: string): Promise<void> {
  for (let round = 0; round < 60; round++) {
    const pids = await markedProcesses(id)
    if (pids.length === 0) return
    for (const pid of pids) {
      try {
        process.kill(pid, round < 40 ? 'SIGTERM' : 'SIGKILL')
      } catch {
        // It ended between the look and the signal.
      }
    }
    await sleep(50)
  }
}

async function markedProcesses(id: string): Promise<number[]> {
  const wanted = `\0${MARKER}=${id}`
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const marked = await Promise.all(
    pids.map(async (pid) => {
      // Unreadable means another user's, or gone: neither is ours. A zombie's environment reads as empty.
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')
      return `\0${environment}`.includes(wanted)
    }),
  )
  return pids.filter((pid, index) => marked[index] && pid !== process.pid)
}

async function findProgram(program: string, options: { what: string; next: string }): Promise<string> {
  const path = await findOnPath(program)
  if (path === undefined) {
    throw new Failure(`${options.what}: the program ${program} is not on this machine`, options.next)
  }
  return path
}

/**
 * Where a program is: the path itself when it is one, else the first hit of PATH. Folders that this user may not look
 * into are passed over in silence, which `which` of @actions/io tells standard output about.
 */
export async function findOnPath(program: string): Promise<string | undefined> {
  const folders = program.includes('/') ? [''] : (process.env.PATH ?? '').split(delimiter).filter(Boolean)
  for (const folder of folders) {
    const path = join(folder, program)
    const isProgram = await access(path, constants.X_OK)
      .then(() => stat(path))
      .then(
        (found) => found.isFile(),
        () => false,
      )
    if (isProgram) return path
  }
  return undefined
}

/** @actions/exec splits its first argument into words unless it is quoted. */
function quoted(path: string): string {
  return `"${path.replaceAll('"', '\\"')}"`
}

async function aborted(signal: AbortSignal, ends: AbortSignal): Promise<'cancelled'> {
  return await new Promise((resolve) => {
    if (signal.aborted) resolve('cancelled')
    signal.addEventListener('abort', () => resolve('cancelled'), { once: true, signal: ends })
    ends.addEventListener('abort', () => resolve('cancelled'), { once: true })
  })
}

/** The last lines of a program's output, for an error message. */
export function tailOf(output: string): string {
  return output.trim().split('\n').slice(-QUOTED_LINES).join('\n')
}
