import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type Arch, platformOf } from '../arch.ts'
import type { PieceKey } from '../piece-cache.ts'
import { inspectArchive } from '../verify/archive.ts'
import type { PlannedImage } from './plan.ts'

/** The archive of an image as a piece that is kept between runs. A tag that has moved makes another key. */
export function archiveKey({ reference, names }: PlannedImage, digest: string, arch: Arch): PieceKey {
  return { kind: 'image-archive-1', name: reference, facts: [digest, platformOf(arch), ...names] }
}

/**
 * Reads an archive that comes from elsewhere from end to end: each blob against its digest, all that a node of this
 * architecture needs, and nothing but this image under the names that it has in the plan.
 * @returns what is wrong with it; undefined when nothing is
 */
export async function archiveProblem(
  path: string,
  { names }: PlannedImage,
  digest: string,
  arch: Arch,
): Promise<string | undefined> {
  const { size } = await stat(path)
  const pieces = createReadStream(path, { highWaterMark: 1024 * 1024 })
  try {
    const archive = await inspectArchive({ path, size }, pieces, arch)
    const [finding] = archive.findings
    if (finding !== undefined) return finding.what
    const held = archive.names.map((found) => `${found.name} ${found.digest}`).toSorted()
    const wanted = names.map((name) => `${name} ${digest}`).toSorted()
    return held.join() === wanted.join() ? undefined : `it holds ${held.join(', ') || 'no image'}`
  } finally {
    pieces.destroy()
  }
}
