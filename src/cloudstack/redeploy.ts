import { Failure } from '../errors.ts'
import type { Log } from '../log.ts'
import type { Manifest } from '../manifests/parse.ts'
import type { CloudStack } from './client.ts'
import type { Cluster } from './model.ts'
import { redeployByKubeconfig } from './redeploy-kubeconfig.ts'
import { redeployByScale } from './redeploy-scale.ts'
import { rangeOf } from './sizes.ts'
import { sentenceOf } from './words.ts'

/** By which way the autoscaler is deployed anew after an upgrade. */
export type RedeployMethod =
  | { readonly kind: 'scale' }
  | { readonly kind: 'kubeconfig'; readonly manifest: Manifest }
  | { readonly kind: 'none' }

/** How the autoscaler of a cluster fared. */
export interface Redeployed {
  /** As known before: its sizes, or its image. */
  readonly before: string
  readonly after: string
  /** What went wrong and what is to be done; names the cluster. */
  readonly warning?: string
}

/** What the summary says of an autoscaler that nothing is done about; undefined when there is one to redeploy. */
export function leftAlone({ autoscaling, sizes }: Cluster, method: RedeployMethod): string | undefined {
  if (!autoscaling) return 'off'
  if (sizes === undefined) return 'on, sizes unset'
  return method.kind === 'none' ? `on, sizes ${rangeOf(sizes)}` : undefined
}

/**
 * Redeploys the autoscaler of a cluster that was upgraded. A failure is a warning: the upgrade stays a success and the
 * old autoscaler goes on.
 * @param timeout in milliseconds
 * @throws Cancelled when nothing was done yet, or when all that is left undone may be left so
 */
export async function redeploy(
  api: CloudStack,
  cluster: Cluster,
  method: RedeployMethod,
  timeout: number,
  log: Log,
): Promise<Redeployed> {
  const left = leftAlone(cluster, method)
  const { sizes } = cluster
  if (left !== undefined || sizes === undefined || method.kind === 'none') {
    return { before: left ?? '', after: left ?? '' }
  }
  try {
    return method.kind === 'scale'
      ? await redeployByScale(api, { ...cluster, sizes }, timeout, log)
      : await redeployByKubeconfig(api, { ...cluster, sizes }, method.manifest, timeout, log)
  } catch (thrown) {
    if (!(thrown instanceof Failure)) throw thrown
    const before = `sizes ${rangeOf(sizes)}`
    return {
      before,
      after: `not redeployed, ${before}`,
      warning: `cluster ${cluster.name}: the autoscaler was not redeployed: ${sentenceOf(thrown)}`,
    }
  }
}
