/**
 * A failure that a user can act on. Every stage throws this; anything else that escapes is a bug of ours.
 * The message reads: what failed, on what (URL, image, file, input), why; and on its own line what to do next.
 */
export class Failure extends Error {
  override readonly name = 'Failure'

  /**
   * @param message what failed, on what, and why, in one sentence
   * @param next what the user does about it; names the input that overrides the value where there is one
   */
  constructor(message: string, next: string, options?: ErrorOptions) {
    super(`${message}\n${next}`, options)
  }
}

/** The build was cancelled (SIGINT, SIGTERM): nobody's fault, so it carries no advice. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

/** One Failure that tells several, each with its own advice. @param what such as `inputs cannot be used` */
export function joined(what: string, problems: readonly Failure[]): Failure {
  const items = problems.map((problem) => `- ${problem.message.replace('\n', '. ')}`)
  return new Failure(`${problems.length} ${what}`, items.join('\n'))
}

/** Throws what was found, if anything: the one Failure as it is, several as one. @param what as for {@link joined} */
export function throwProblems(what: string, problems: readonly Failure[]): void {
  const [first, ...others] = problems
  if (first !== undefined) throw others.length === 0 ? first : joined(what, problems)
}

/** The text of whatever was thrown: also of values that are no Error. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** True for an Error that carries the given system error code, such as `ENOENT`. */
export function hasCode(thrown: unknown, code: string): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === code
}

/** Wraps whatever a system call threw into a Failure that names the file; a full disk gets its own advice. */
export function fileFailure(what: string, path: string, thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown
  const next = hasCode(thrown, 'ENOSPC')
    ? `The disk that holds ${path} is full: free space there, or point output-dir (or TMPDIR, on a runner RUNNER_TEMP) at a larger disk.`
    : hasCode(thrown, 'EACCES') || hasCode(thrown, 'EROFS') || hasCode(thrown, 'EPERM')
      ? `Make ${path} writable for this user, or choose another output-dir.`
      : `Look at ${path} and the reason above.`
  return new Failure(`${what}: ${path}: ${reasonOf(thrown)}`, next, { cause: thrown })
}
