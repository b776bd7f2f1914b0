import { Failure } from '../errors.ts'
import type { CloudStack } from './client.ts'
import { type Cluster, clusterOf, type SupportedVersion, versionOf, type Zone, zoneOf } from './model.ts'

/** Every Kubernetes version, of all zones, the disabled ones too. */
export async function allVersions(api: CloudStack): Promise<readonly SupportedVersion[]> {
  return (await api.list('listKubernetesSupportedVersions', 'kubernetessupportedversion')).map(versionOf)
}

/** Every cluster that the keys may see; clusters of projects are listed on their own (`projectid=-1`). */
export async function allClusters(api: CloudStack): Promise<readonly Cluster[]> {
  const own = await api.list('listKubernetesClusters', 'kubernetescluster', { listall: 'true' })
  const ofProjects = await api.list('listKubernetesClusters', 'kubernetescluster', {
    listall: 'true',
    projectid: '-1',
  })
  const clusters = [...own, ...ofProjects].map(clusterOf)
  return [...new Map(clusters.map((cluster) => [cluster.id, cluster])).values()]
}

/**
 * The cluster as it is now. One of a project is seen by naming the project only.
 * @throws Failure when the cluster is gone, and what reads throw
 */
export async function lookedUp(
  api: CloudStack,
  { id, name, projectId }: Pick<Cluster, 'id' | 'name' | 'projectId'>,
): Promise<Cluster> {
  const [fields] = await api.list('listKubernetesClusters', 'kubernetescluster', {
    id,
    listall: 'true',
    ...(projectId === undefined ? {} : { projectid: projectId }),
  })
  if (fields !== undefined) return clusterOf(fields)
  throw new Failure(`cluster ${name} (${id}) is gone from CloudStack`, 'Look into CloudStack.')
}

/**
 * The zones called by name or id.
 * @throws Failure naming what is no zone
 */
export async function zonesCalled(api: CloudStack, wanted: readonly string[]): Promise<readonly Zone[]> {
  if (wanted.length === 0) return []
  const zones = (await api.list('listZones', 'zone')).map(zoneOf)
  return wanted.map((text) => {
    const zone = zones.find(({ id, name }) => id === text || name === text)
    if (zone !== undefined) return zone
    throw new Failure(
      `zones: CloudStack has no zone ${JSON.stringify(text)}`,
      `Set zones to names or ids among: ${zones.map(({ name }) => name).join(', ')}.`,
    )
  })
}
