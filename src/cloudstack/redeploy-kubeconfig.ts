import { Cancelled, Failure } from '../errors.ts'
import type { Log } from '../log.ts'
import { imagesOf } from '../manifests/images.ts'
import type { Manifest } from '../manifests/parse.ts'
import type { CloudStack } from './client.ts'
import { describe, Kubernetes, parseKubeconfig } from './kubernetes.ts'
import { rendered } from './manifest.ts'
import { type Cluster, type Fields, isFields, type Sizes } from './model.ts'
import type { Redeployed } from './redeploy.ts'
import { sentenceOf } from './words.ts'

/**
 * Redeploys the autoscaler through the API server of the cluster: the manifest of the ISO is filled in as the node
 * does it, applied, and the rollout waited for. CloudStack's settings stay untouched.
 * @throws Failure or Cancelled before all is applied; to apply it again is harmless
 */
export async function redeployByKubeconfig(
  api: CloudStack,
  cluster: Cluster & { readonly sizes: Sizes },
  manifest: Manifest,
  timeout: number,
  log: Log,
): Promise<Redeployed> {
  const { clusterconfig } = await api.read('getKubernetesClusterConfig', { id: cluster.id })
  const config = isFields(clusterconfig) ? clusterconfig.configdata : undefined
  if (typeof config !== 'string') {
    throw new Failure(`CloudStack has no kubeconfig of cluster ${cluster.name}`, 'Use redeploy: scale.')
  }
  const access = parseKubeconfig(config, `the kubeconfig of cluster ${cluster.name}`)
  const kubernetes = new Kubernetes(access, { log, signal: api.signal, timing: api.timing })
  const filledIn = rendered(manifest, cluster.id, cluster.sizes)
  const objects = filledIn.documents.flatMap((document) => unfolded(document.toJS()))
  const deployments = objects.filter(({ kind }) => kind === 'Deployment')

  log.info(`cluster ${cluster.name}: redeploying the autoscaler at ${access.server}`)
  const running = await Promise.all(deployments.map((deployment) => kubernetes.get(deployment)))
  for (const object of objects) {
    await kubernetes.apply(object)
    log.info(`cluster ${cluster.name}: applied ${describe(object)}`)
  }
  const before = running.flatMap(containerImages).join(', ') || 'none'
  const after = imagesOf(filledIn).join(', ')
  try {
    for (const deployment of deployments) await kubernetes.rolledOut(deployment, timeout)
    return { before, after }
  } catch (thrown) {
    if (!(thrown instanceof Failure) && !(thrown instanceof Cancelled)) throw thrown
    const why = thrown instanceof Cancelled ? 'its rollout was not waited for' : sentenceOf(thrown)
    const warning = `cluster ${cluster.name}: ${after} is applied, but ${why}. Look at it with kubectl.`
    return { before, after: `${after}, not rolled out`, warning }
  }
}

/** The objects of a document: those of a List, or itself. */
function unfolded(document: unknown): readonly Fields[] {
  if (!isFields(document)) return []
  return document.kind === 'List' && Array.isArray(document.items)
    ? document.items.filter(isFields)
    : [document]
}

function containerImages(deployment: Fields | undefined): readonly string[] {
  const at = (fields: unknown, name: string): unknown => (isFields(fields) ? fields[name] : undefined)
  const containers = at(at(at(at(deployment, 'spec'), 'template'), 'spec'), 'containers')
  const images = (Array.isArray(containers) ? containers : []).map((container) => at(container, 'image'))
  return images.filter((image) => typeof image === 'string')
}
