import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { Failure, fileFailure } from '../errors.ts'
import { Downloads } from '../fetch/download.ts'
import { openIso } from '../iso/reader.ts'
import type { Log } from '../log.ts'
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
  context: {
    readonly cwd: string
    readonly tempDir: string
    readonly log: Log
    readonly signal: AbortSignal
  },
): Promise<Manifest> {
  const manifest = parseManifest(await textFrom(source, context), source)
  requireAutoscalerPlaceholders(manifest)
  return manifest
}

async function textFrom(
  source: string,
  context: {
    readonly cwd: string
    readonly tempDir: string
    readonly log: Log
    readonly signal: AbortSignal
  },
): Promise<string> {
  if (/^https?:\/\//i.test(source)) {
    const downloads = new Downloads({ mirrors: [], log: context.log, signal: context.signal })
    const request = {
      what: 'the autoscaler manifest',
      input: 'autoscaler-manifest',
      candidates: [{ url: source }] as const,
    }
    const { text } = await downloads.text(request, join(context.tempDir, `cks-iso-${randomUUID()}.yaml`))
    return text
  }
  const path = isAbsolute(source) ? source : join(context.cwd, source)
  if (path.toLowerCase().endsWith('.iso')) return await textOnIso(path)
  return await readFile(path, 'utf8').catch((thrown: unknown) => {
    throw new Failure(
      `autoscaler-manifest: ${fileFailure('cannot read it', path, thrown).message.split('\n')[0]}`,
      'Set autoscaler-manifest to the ISO, or to its autoscaler.yaml, a file or a URL.',
      { cause: thrown },
    )
  })
}

async function textOnIso(path: string): Promise<string> {
  const iso = await openIso(path)
  try {
    const pieces: Buffer[] = []
    for await (const piece of iso.read(ON_THE_ISO)) pieces.push(piece)
    return Buffer.concat(pieces).toString('utf8')
  } finally {
    await iso.close()
  }
}

/** The name under which the node looks for it. */
const ON_THE_ISO = 'autoscaler.yaml'

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
