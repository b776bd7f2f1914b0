import { readText, type TextContext } from '../iso/text.ts'
import { requireAutoscalerPlaceholders } from '../manifests/autoscaler.ts'
import { type Manifest, parseManifest } from '../manifests/parse.ts'
import type { Sizes } from './model.ts'

/**
 * Reads autoscaler.yaml as it stands on an ISO, placeholders and all.
 * @param source a file or http(s) URL of it, or the ISO as a file
 * @throws Failure naming autoscaler-manifest; Cancelled
 */
export async function autoscalerManifest(
  source: string,
  context: Omit<TextContext, 'mirrors'>,
): Promise<Manifest> {
  const request = { source, onIso: 'autoscaler.yaml', input: 'autoscaler-manifest' }
  const manifest = parseManifest(await readText(request, { ...context, mirrors: [] }), source)
  requireAutoscalerPlaceholders(manifest)
  return manifest
}

/**
 * Fills in what the node fills in, and as it does: by text, in the whole file
 * (`sed s/<cluster-id>/…/g` of autoscale-kube-cluster).
 */
export function rendered(manifest: Manifest, clusterId: string, { min, max }: Sizes): Manifest {
  const text = manifest.text
    .replaceAll('<cluster-id>', clusterId)
    .replaceAll('<min>', String(min))
    .replaceAll('<max>', String(max))
  return parseManifest(text, manifest.where)
}
