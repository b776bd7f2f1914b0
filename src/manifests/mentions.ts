import { formatReference, type ImageReference, tryReference } from '../images/reference.ts'
import { imagesOf } from './images.ts'
import { offsetOf, stringsIn } from './nodes.ts'
import { nameOf, objectsOf } from './objects.ts'
import type { Manifest } from './parse.ts'
import { lineAt } from './text.ts'

/** A whole image reference that the manifest names without making kubelet pull it. */
export interface ImageMention {
  /** As written. */
  readonly reference: string
  /** Line of the manifest's text where the value starts, 1-based. */
  readonly line: number
  /** Object and path, such as `ConfigMap/images data.plugin`. */
  readonly how: string
}

/** A registry host that no word, file name, date or network has: it ends in a name, or is an address with a port. */
const REGISTRY = /(?:^localhost|\.[a-z][a-z0-9-]*)(?::\d+)?$|^[\d.]+:\d+$/i
/** `node-role.kubernetes.io/master:NoSchedule` is no image. */
const TAINT_EFFECT = /^(?:NoSchedule|PreferNoSchedule|NoExecute)$/
/** A line of YAML or JSON inside a text, such as a pod that a ConfigMap holds. */
const IMAGE_LINE = /^\s*(?:-\s+)?(["']?)image\1\s*:\s*(["']?)([^\s"',#]+)\2\s*,?\s*(?:#.*)?$/gm

/**
 * Image references in arguments, environment values, ConfigMaps and custom resources: something pulls them
 * later, so they are found and not packed. Only whole references count, with a tag or digest and either a
 * registry host or the key `image` beside them; CRD schemas, comments and what `imagesOf` gives do not. Each
 * reference comes once, at its first place.
 */
export function mentionedImages(manifest: Manifest): readonly ImageMention[] {
  const seen = new Set(imagesOf(manifest).map(normalised))
  const mentions: ImageMention[] = []
  for (const object of objectsOf(manifest)) {
    if (object.kind === 'CustomResourceDefinition') continue
    for (const { path, text, node } of stringsIn(object.node)) {
      for (const reference of candidates(path.at(-1) ?? '', text)) {
        if (seen.has(normalised(reference))) continue
        seen.add(normalised(reference))
        const how = `${nameOf(object)} ${path.join('.').replaceAll('.[', '[')}`
        mentions.push({ reference, line: lineAt(manifest.text, offsetOf(node)), how })
      }
    }
  }
  return mentions
}

function candidates(key: string, value: string): readonly string[] {
  const text = value.trim()
  if (text.includes('\n')) {
    return [...text.matchAll(IMAGE_LINE)].map(([, , , image = '']) => image).filter(isExact)
  }
  if (key === 'image' && isExact(text)) return [text]
  const behindFlag = text.slice(text.indexOf('=') + 1)
  return [text, behindFlag].filter(isExactOnRegistry).slice(0, 1)
}

function isExact(text: string): boolean {
  return explicit(text) !== undefined
}

function isExactOnRegistry(text: string): boolean {
  const reference = explicit(text)
  if (reference === undefined || !text.startsWith(`${reference.domain}/`)) return false
  return REGISTRY.test(reference.domain) && !TAINT_EFFECT.test(reference.tag ?? '')
}

/** The reference, when it writes out a tag or a digest. */
function explicit(text: string): ImageReference | undefined {
  const reference = tryReference(text)
  const isWritten = reference?.digest !== undefined || text.endsWith(`:${reference?.tag}`)
  return isWritten ? reference : undefined
}

function normalised(reference: string): string {
  const parsed = tryReference(reference)
  return parsed === undefined ? reference : formatReference(parsed)
}
