import { Cancelled, Failure } from '../errors.ts'
import type { Log } from '../log.ts'
import { type CloudStack, NoAnswer, Refused } from './client.ts'
import { lookedUp } from './inventory.ts'
import { type Cluster, type Sizes, sameSizes } from './model.ts'
import type { Redeployed } from './redeploy.ts'
import { nudged, rangeOf } from './sizes.ts'
import { pause } from './timing.ts'
import { sentenceOf } from './words.ts'

/**
 * Redeploys the autoscaler through CloudStack: a size is moved by one and back, and CloudStack runs
 * autoscale-kube-cluster on the control node each time. That script applies the autoscaler.yaml which the upgrade
 * copied from the ISO. Turning autoscaling off and on would delete the running autoscaler first.
 *
 * Nothing that CloudStack says of a call is believed: the sizes are read again after each. Releases are known that
 * report success and do nothing, and an answer may be lost on its way. Once the first call is out, a cancel no longer
 * stops this at once: the sizes are put back first, as long as `timing.restore` allows.
 * @param timeout for each of the two calls, in milliseconds
 * @throws Cancelled before the first call only
 */
export async function redeployByScale(
  api: CloudStack,
  cluster: Cluster & { readonly sizes: Sizes },
  timeout: number,
  log: Log,
): Promise<Redeployed> {
  if (api.signal.aborted) throw new Cancelled('cancelled')
  const { sizes, name } = cluster
  const before = `sizes ${rangeOf(sizes)}`
  const failed = (after: string, warning: string): Redeployed => ({
    before,
    after,
    warning: `cluster ${name}: ${warning}`,
  })
  const moved = nudged(sizes)
  if (moved === undefined) {
    return failed(
      `not redeployed, ${before}`,
      `the autoscaler was not redeployed: CloudStack would not take its sizes ${rangeOf(sizes)} back (minsize is at least 1, maxsize above it). Set other sizes; that redeploys it.`,
    )
  }

  log.info(
    `cluster ${name}: redeploying the autoscaler: sizes ${rangeOf(sizes)}, for a moment ${rangeOf(moved)}`,
  )
  const uncertain = `SIZES NOT CERTAIN: ${rangeOf(moved)} or ${rangeOf(sizes)}`
  const byHand = `scaleKubernetesCluster id=${cluster.id} autoscalingenabled=true minsize=${sizes.min} maxsize=${sizes.max}`
  const grace = graceAfter(api.signal, api.timing.restore, () => {
    log.warning(
      `cluster ${name}: cancelled while its autoscaler is redeployed; putting its sizes back to ${rangeOf(sizes)}. Should this run be killed before it says that they are back, call ${byHand}.`,
    )
  })
  try {
    const patient = api.under(grace.signal)
    const first = await setSizes(patient, cluster, moved, timeout, log)
    if (first.now?.autoscaling === false) {
      return failed('off', 'autoscaling was turned off while its autoscaler was redeployed; it is left so.')
    }
    if (first.now?.state === 'Scaling') {
      return failed(uncertain, `its scaling has not ended: ${first.problem}. When it has, call ${byHand}.`)
    }
    if (first.now !== undefined && sameSizes(first.now.sizes, sizes)) {
      const why = first.problem ?? 'CloudStack reported success and changed nothing'
      return failed(
        `not redeployed, ${before}`,
        `the autoscaler was not redeployed, the old one goes on with sizes ${rangeOf(sizes)}: ${why}. Look into CloudStack, then set a size to another value and back, or use redeploy: kubeconfig.${first.lost ? ` Should the lost call arrive late, its sizes become ${rangeOf(moved)}: then call ${byHand}.` : ''}`,
      )
    }
    if (first.now !== undefined && !sameSizes(first.now.sizes, moved)) {
      const others = first.now.sizes === undefined ? 'unset' : rangeOf(first.now.sizes)
      return failed(
        `sizes ${others}`,
        `someone else set its sizes to ${others} while its autoscaler was redeployed; they are left so.`,
      )
    }
    const problem = await putBack(patient, cluster, timeout, log)
    if (problem === undefined) {
      log.info(`cluster ${name}: the autoscaler is redeployed and its sizes are ${rangeOf(sizes)} again`)
      return first.problem === undefined
        ? { before, after: `redeployed, ${before}` }
        : failed(
            `unknown, ${before}`,
            `whether its autoscaler was redeployed is not known: ${first.problem}.`,
          )
    }
    if (first.now === undefined) {
      return failed(
        uncertain,
        `whether its autoscaler's sizes are ${rangeOf(sizes)} or ${rangeOf(moved)} is not known: ${problem}. Call ${byHand}.`,
      )
    }
    return failed(
      `SIZES NOT RESTORED: ${rangeOf(moved)} instead of ${rangeOf(sizes)}`,
      `its autoscaler's sizes could not be put back from ${rangeOf(moved)} to ${rangeOf(sizes)}: ${problem}. Call ${byHand}.`,
    )
  } finally {
    grace.end()
  }
}

interface SizeChange {
  /** The cluster as it is now; absent when CloudStack does not tell. */
  readonly now: Cluster | undefined
  /** What went wrong on the way. */
  readonly problem: string | undefined
  /** No answer came, so the call may still be on its way. */
  readonly lost: boolean
}

/** @throws nothing but bugs: what happened is in the result */
async function setSizes(
  api: CloudStack,
  cluster: Cluster,
  { min, max }: Sizes,
  timeout: number,
  log: Log,
): Promise<SizeChange> {
  const deadline = Date.now() + timeout
  let problem: string | undefined
  let lost = false
  try {
    const job = await api.change('scaleKubernetesCluster', {
      id: cluster.id,
      autoscalingenabled: 'true',
      minsize: String(min),
      maxsize: String(max),
    })
    await api.job(job, `cluster ${cluster.name}: sizes ${rangeOf({ min, max })}`, timeout)
  } catch (thrown) {
    problem = problemOf(thrown)
    lost = thrown instanceof NoAnswer && thrown.mayHaveHappened
    if (lost)
      log.info(`cluster ${cluster.name}: the answer was lost (${problem}); looking whether it took effect`)
  }
  const watchUntil = lost ? Date.now() + api.timing.settle : 0
  try {
    for (;;) {
      const now = await lookedUp(api, cluster)
      const busy = now.state === 'Scaling'
      const reached = sameSizes(now.sizes, { min, max })
      if (!busy && reached) return { now, problem: lost ? undefined : problem, lost }
      if (!busy && Date.now() > watchUntil) return { now, problem, lost }
      if (Date.now() > deadline) return { now, problem: problem ?? `its state is ${now.state}`, lost }
      await pause(api.timing.poll, api.signal)
    }
  } catch (thrown) {
    return { now: undefined, problem: problem ?? problemOf(thrown), lost }
  }
}

/** Sets the sizes as they were, more than once if need be. @returns why they are not, or undefined when they are */
async function putBack(
  api: CloudStack,
  cluster: Cluster & { readonly sizes: Sizes },
  timeout: number,
  log: Log,
): Promise<string | undefined> {
  let why = OUT_OF_TIME
  for (const wait of [0, ...api.timing.pauses]) {
    if (wait > 0) log.info(`cluster ${cluster.name}: its sizes are not back yet: ${why}; trying again`)
    await pause(wait, api.signal).catch(() => {})
    if (api.signal.aborted) return why
    // To say a value again that is there already is a no-op for CloudStack, so this call may be repeated.
    const { now, problem } = await setSizes(api, cluster, cluster.sizes, timeout, log)
    if (sameSizes(now?.sizes, cluster.sizes)) return undefined
    why = problem ?? 'CloudStack reported success and changed nothing'
  }
  return why
}

const OUT_OF_TIME = 'the time after the cancel was up'

function problemOf(thrown: unknown): string {
  if (thrown instanceof Refused) return `CloudStack answered ${thrown.code}: ${thrown.reason}`
  if (thrown instanceof Cancelled) return OUT_OF_TIME
  if (thrown instanceof Failure) return sentenceOf(thrown)
  throw thrown
}

/** A signal that fires some time after another one has. */
function graceAfter(
  signal: AbortSignal,
  milliseconds: number,
  onCancel: () => void,
): { readonly signal: AbortSignal; end(): void } {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const onAbort = () => {
    onCancel()
    timer = setTimeout(() => late.abort(), milliseconds)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  return {
    signal: late.signal,
    end: () => {
      signal.removeEventListener('abort', onAbort)
      clearTimeout(timer)
    },
  }
}
