import { isScalar, isSeq } from 'yaml'
import { Failure } from '../errors.ts'
import { at, itemsOf, offsetOf, stringOf } from './nodes.ts'
import type { Manifest } from './parse.ts'
import { CHOOSE_ANOTHER, lineAt } from './text.ts'

/** An object of a manifest: a document, or an item of a List. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  /** Empty when there is none. */
  readonly name: string
  /** Empty when there is none. */
  readonly namespace: string
  readonly node: unknown
}

/** What the objects of a manifest are read from. */
export type Documents = Pick<Manifest, 'where' | 'text' | 'documents' | 'aliases'>

/**
 * The objects of a manifest in their order, Lists unfolded as kubectl does: an item of a `DeploymentList` may
 * leave its kind to the list.
 * @throws Failure for a document or an item without apiVersion and kind
 */
export function objectsOf(manifest: Documents): readonly KubernetesObject[] {
  return manifest.documents.flatMap(({ contents }, index) =>
    contents === null || (isScalar(contents) && contents.value === null)
      ? []
      : unfold(manifest, contents, `document ${index + 1}`),
  )
}

type TypeMeta = Pick<KubernetesObject, 'apiVersion' | 'kind'>

function unfold(
  manifest: Documents,
  node: unknown,
  what: string,
  list?: TypeMeta,
): readonly KubernetesObject[] {
  const { aliases } = manifest
  const read = (...path: readonly string[]) => stringOf(aliases, at(aliases, node, ...path)) ?? ''
  const apiVersion = read('apiVersion') || list?.apiVersion
  const kind = read('kind') || list?.kind
  if (!apiVersion || !kind) throw notAnObject(manifest, node, what)

  const items = at(aliases, node, 'items')
  if (kind.endsWith('List') && isSeq(items)) {
    const meta = kind === 'List' ? undefined : { apiVersion, kind: kind.slice(0, -'List'.length) }
    return itemsOf(aliases, items).flatMap((item, index) =>
      unfold(manifest, item, `${what}, item ${index + 1}`, meta),
    )
  }
  return [
    { apiVersion, kind, name: read('metadata', 'name'), namespace: read('metadata', 'namespace'), node },
  ]
}

function notAnObject({ where, text }: Documents, node: unknown, what: string): Failure {
  const start = offsetOf(node)
  const [line = ''] = text.slice(start).split('\n', 1)
  return new Failure(
    `${where}: ${what}, line ${lineAt(text, start)}: no Kubernetes object, apiVersion and kind are missing; it begins ${JSON.stringify(line.slice(0, 80))}`,
    CHOOSE_ANOTHER,
  )
}

/** `Deployment/headlamp`, as messages name an object. */
export function nameOf({ kind, name }: KubernetesObject): string {
  return `${kind}/${name || '(unnamed)'}`
}

const TEMPLATE = ['spec', 'template', 'spec']
/** Where the built-in kinds keep their pod spec, by API group and kind. */
const POD_SPECS: ReadonlyMap<string, readonly string[]> = new Map([
  ['/Pod', ['spec']],
  ['/PodTemplate', ['template', 'spec']],
  ['/ReplicationController', TEMPLATE],
  ['/DeploymentConfig', TEMPLATE],
  ['apps.openshift.io/DeploymentConfig', TEMPLATE],
  ...['apps', 'extensions'].flatMap((group) =>
    ['Deployment', 'ReplicaSet', 'StatefulSet', 'DaemonSet'].map(
      (kind) => [`${group}/${kind}`, TEMPLATE] as const,
    ),
  ),
  ['batch/Job', TEMPLATE],
  ['batch/CronJob', ['spec', 'jobTemplate', ...TEMPLATE]],
])

/**
 * The pod spec of an object that kubelet runs pods for. Custom resources have none, whatever they look like:
 * only their controller makes pods of them.
 */
export function podSpecOf(aliases: Documents['aliases'], object: KubernetesObject): unknown {
  const group = object.apiVersion.includes('/') ? object.apiVersion.split('/', 1)[0] : ''
  const path = POD_SPECS.get(`${group}/${object.kind}`)
  return path === undefined ? undefined : at(aliases, object.node, ...path)
}
