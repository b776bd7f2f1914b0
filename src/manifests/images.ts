import type { YAMLMap } from 'yaml'
import { at, type Entry, entriesOf, itemsOf, mapOf, offsetOf, stringOf } from './nodes.ts'
import { type KubernetesObject, objectsOf, podSpecOf } from './objects.ts'
import type { Manifest } from './parse.ts'
import { lineAt } from './text.ts'

/** One place that makes kubelet pull an image. */
export interface ImageUse {
  /** As written, not normalised. */
  readonly reference: string
  /** Line of the manifest's text, 1-based. */
  readonly line: number
}

/** A container, or the `image` of a volume: the map that names an image and how to pull it. */
export interface ImageHolder {
  readonly object: KubernetesObject
  readonly map: YAMLMap
  readonly policyKey: 'imagePullPolicy' | 'pullPolicy'
  readonly imageKey: 'image' | 'reference'
  readonly reference: string
  readonly image: Entry
  readonly policy: Entry | undefined
}

const CONTAINER_LISTS = ['initContainers', 'containers', 'ephemeralContainers']

/**
 * The image references that kubelet pulls when the manifest is applied, as written, unique, sorted by code
 * unit: of containers, init and ephemeral containers and image volumes of every built-in object with a pod
 * template, also inside Lists.
 */
export function imagesOf(manifest: Manifest): readonly string[] {
  return [...new Set(imageUses(manifest).map(({ reference }) => reference))].toSorted()
}

/** The places of those references, one a container or image volume, object by object. */
export function imageUses(manifest: Manifest): readonly ImageUse[] {
  return imageHolders(manifest).map(({ reference, image }) => ({
    reference,
    line: lineAt(manifest.text, offsetOf(image.value)),
  }))
}

/** Every container and image volume that names an image; one that several aliases stand for comes once for each. */
export function imageHolders(manifest: Manifest): readonly ImageHolder[] {
  const { aliases } = manifest
  return objectsOf(manifest).flatMap((object) => {
    const spec = podSpecOf(aliases, object)
    const containers = CONTAINER_LISTS.flatMap((list) => itemsOf(aliases, at(aliases, spec, list)))
    const volumes = itemsOf(aliases, at(aliases, spec, 'volumes')).map((volume) =>
      at(aliases, volume, 'image'),
    )
    return [
      ...containers.flatMap((map) => imageHolder(manifest, object, map, 'image', 'imagePullPolicy')),
      ...volumes.flatMap((map) => imageHolder(manifest, object, map, 'reference', 'pullPolicy')),
    ]
  })
}

function imageHolder(
  { aliases }: Manifest,
  object: KubernetesObject,
  node: unknown,
  imageKey: ImageHolder['imageKey'],
  policyKey: ImageHolder['policyKey'],
): readonly ImageHolder[] {
  const map = mapOf(aliases, node)
  const entries = entriesOf(aliases, map)
  const image = entries.get(imageKey)
  const reference = stringOf(aliases, image?.value)
  if (map === undefined || image === undefined || !reference) return []
  return [{ object, map, imageKey, policyKey, reference, image, policy: entries.get(policyKey) }]
}
