import { Cancelled, Failure, joined } from './errors.ts'

/**
 * Promise.all that never leaves work behind: it settles only when every part has. When a part fails, `onFailure`
 * (say, an abort) lets the others end early, and the failure that came first is thrown.
 */
export async function together<T extends readonly unknown[]>(
  parts: readonly [...{ [K in keyof T]: Promise<T[K]> }],
  onFailure: () => void = () => {},
): Promise<T> {
  const failures: unknown[] = []
  for (const part of parts) {
    part.catch((thrown: unknown) => {
      failures.push(thrown)
      onFailure()
    })
  }
  await Promise.allSettled(parts)
  // A part that was cancelled because another failed is not the reason.
  const reason = failures.find((thrown) => !(thrown instanceof Cancelled)) ?? failures[0]
  if (reason !== undefined) throw reason
  return await Promise.all(parts)
}

/**
 * As {@link together}, for look-ups that depend on the user's input: when several fail, all of them are told, so that
 * the user can put them right at once.
 * @param what such as `versions cannot be found out`
 */
export async function togetherTelling<T extends readonly unknown[]>(
  what: string,
  parts: readonly [...{ [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  const outcomes = await Promise.allSettled(parts)
  const reasons = outcomes.flatMap((outcome): unknown[] =>
    outcome.status === 'rejected' ? [outcome.reason] : [],
  )
  const failures = reasons.filter((reason) => reason instanceof Failure)
  if (failures.length > 1 && failures.length === reasons.length) throw joined(what, failures)
  return await together<T>(parts)
}
