import type { Sizes } from './model.ts'

/**
 * Sizes that differ from the present ones by one, so that CloudStack runs the node's autoscale-kube-cluster script:
 * the same autoscalingenabled, minsize and maxsize again are a silent no-op
 * (KubernetesClusterScaleWorker.isAutoscalingChanged).
 *
 * CloudStack takes sizes with minsize >= 1, maxsize > minsize and maxsize + control nodes within
 * `cloud.kubernetes.cluster.max.size` of the account (validateKubernetesClusterScaleParameters). The maximum is never
 * lowered: it may lie above the account's limit by now, and then the way back would be refused. So whenever the first
 * call is taken, the second one is too. minsize goes first, and up before down: for the minute between the calls the
 * autoscaler then removes no node that it would have kept, and adds none.
 * @returns undefined when CloudStack would not take the present sizes back
 */
export function nudged({ min, max }: Sizes): Sizes | undefined {
  if (min < 1 || max <= min) return undefined
  if (min + 1 < max) return { min: min + 1, max }
  if (min > 1) return { min: min - 1, max }
  return { min, max: max + 1 }
}

/** `2–5`. */
export function rangeOf({ min, max }: Sizes): string {
  return `${min}–${max}`
}
