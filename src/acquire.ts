import { chmod, copyFile, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pMap from 'p-map'
import { hostArch } from './arch.ts'
import { Failure, hasCode, reasonOf } from './errors.ts'
import { requireContent } from './fetch/content.ts'
import type { Downloads } from './fetch/download.ts'
import { sha256Of } from './fetch/hash.ts'
import type { WantedImage } from './images/plan.ts'
import type { TreeFile } from './iso/tree.ts'
import { nodeUnit } from './iso/units.ts'
import type { Log } from './log.ts'
import { prepareManifest } from './manifests/prepare.ts'
import type { PieceCache } from './piece-cache.ts'
import type { FileSource, Plan, PlannedBinary, PlannedManifest } from './plan/plan.ts'
import type { RecordedFile } from './record/record.ts'
import { notAsLocked } from './request/lock.ts'
import { sizeOf } from './words.ts'
import type { Workspace } from './workspace.ts'

/** What every stage of one build shares. */
export interface Stages {
  readonly workspace: Workspace
  readonly downloads: Downloads
  readonly log: Log
  readonly pauses: { readonly pauses?: readonly number[] }
  readonly cache?: PieceCache
}

/** A file that is here, and how it is recorded. */
export interface Acquired {
  readonly file: TreeFile
  readonly recorded: RecordedFile
  readonly lastModified?: number
}

/** Downloads that run beside each other. */
const DOWNLOADS_AT_ONCE = 6

/** Downloads the programs, archives and units of a plan, several at once. @throws Failure; Cancelled */
export async function acquireBinaries(plan: Plan, stages: Stages): Promise<readonly Acquired[]> {
  const acquired = await pMap(plan.binaries, (binary) => acquireBinary(binary, plan, stages), {
    concurrency: DOWNLOADS_AT_ONCE,
  })
  return acquired.flat()
}

async function acquireBinary(binary: PlannedBinary, plan: Plan, stages: Stages): Promise<Acquired[]> {
  const [first] = binary.paths
  const fetched = await acquireFile(
    binary,
    join(stages.workspace.dir, `file-${first.replaceAll('/', '-')}`),
    stages,
  )
  const { content, input } = binary
  if (content === 'unit') {
    const edited = nodeUnit(await readFile(fetched.path, 'utf8'), first, fetched.url)
    return await storeText(edited, binary.paths, fetched, stages)
  }
  if (content === 'elf') {
    await requireContent(fetched, { kind: 'elf', arch: plan.arch }, input)
    await makeRunnable(fetched.path)
  } else {
    await requireContent(fetched, { kind: 'gzip' }, input)
  }
  return binary.paths.map((path) => ({
    file: { path, source: fetched.path },
    recorded: { path, sha256: fetched.sha256, source: fetched.url },
    ...(fetched.lastModified === undefined ? {} : { lastModified: fetched.lastModified }),
  }))
}

/** A manifest as it goes onto the ISO, and the images it needs. */
export interface AcquiredManifest {
  readonly acquired: Acquired[]
  readonly images: readonly WantedImage[]
}

/** Downloads the manifests of a plan and makes them ready for nodes. @throws Failure; Cancelled */
export async function acquireManifests(plan: Plan, stages: Stages): Promise<readonly AcquiredManifest[]> {
  return await pMap(plan.manifests, (manifest) => acquireManifest(manifest, plan, stages), {
    concurrency: DOWNLOADS_AT_ONCE,
  })
}

async function acquireManifest(
  manifest: PlannedManifest,
  plan: Plan,
  stages: Stages,
): Promise<AcquiredManifest> {
  const { role } = manifest
  const fetched = await acquireFile(manifest, join(stages.workspace.dir, `manifest-${role}`), stages)
  const prepared = prepareManifest(role, await readFile(fetched.path, 'utf8'), fetched.url, plan, stages.log)
  const [path] = prepared.paths
  return {
    acquired: await storeText(prepared.text, prepared.paths, fetched, stages),
    images: prepared.images.map((reference) => ({ reference, source: `${path} (${fetched.url})` })),
  }
}

interface FetchedFile {
  readonly path: string
  readonly url: string
  readonly sha256: string
  readonly lastModified?: number
}

async function acquireFile(
  planned: { readonly what: string; readonly input: string; readonly source: FileSource },
  path: string,
  { downloads, log }: Stages,
): Promise<FetchedFile> {
  const { what, input, source } = planned
  if (source.kind === 'url') {
    const downloaded = await downloads.file({ what, input, candidates: source.candidates }, path)
    log.info(`${what}: ${sizeOf(downloaded.size)} from ${downloaded.url}`)
    return downloaded
  }
  if (source.kind === 'text') {
    await writeFile(path, source.text)
    return { path, url: 'none', sha256: sha256Of(source.text) }
  }
  try {
    // A pipe would be copied as nothing, and could keep a build waiting for ever.
    if (!(await stat(source.path)).isFile()) throw new Error('it is no regular file')
    await copyFile(source.path, path)
  } catch (thrown) {
    throw new Failure(
      `Cannot read ${what}: ${source.path}: ${hasCode(thrown, 'ENOENT') ? 'there is no such file' : reasonOf(thrown)}`,
      `Check the input ${input}: it is taken as the path of a file.`,
      { cause: thrown },
    )
  }
  const { name, lockedSha256 } = source
  const sha256 = sha256Of(await readFile(path))
  if (lockedSha256 !== undefined && lockedSha256 !== sha256) {
    throw notAsLocked(`${what}: ${source.path}`, `SHA-256 ${sha256}`, lockedSha256)
  }
  return { path, url: name, sha256 }
}

/** Keeps an edited text under the paths that it has on the ISO, and records what it was edited from. */
async function storeText(
  text: string,
  paths: readonly [string, ...string[]],
  from: FetchedFile,
  { workspace }: Stages,
): Promise<Acquired[]> {
  const source = join(workspace.dir, `text-${paths[0]}`)
  await writeFile(source, text)
  const sha256 = sha256Of(text)
  const edited = sha256 === from.sha256 ? {} : { sourceSha256: from.sha256 }
  return paths.map((path) => ({
    file: { path, source },
    recorded: { path, sha256, source: from.url, ...edited },
  }))
}

/** kubeadm of the ISO where this machine can run it, else one of its own. @returns its path */
export async function kubeadmOf(
  plan: Plan,
  binaries: Promise<readonly Acquired[]>,
  stages: Stages,
): Promise<string> {
  if (plan.arch !== hostArch()) return await acquireHostKubeadm(plan, stages)
  const kubeadm = (await binaries).find(({ file }) => file.path === 'k8s/kubeadm')
  if (kubeadm === undefined) throw new Error('the plan has no kubeadm')
  return kubeadm.file.source
}

/** Downloads a kubeadm that runs on this machine. @returns its path */
export async function acquireHostKubeadm(plan: Plan, stages: Stages): Promise<string> {
  const { hostKubeadm: planned } = plan
  const fetched = await acquireFile(planned, join(stages.workspace.dir, 'kubeadm-host'), stages)
  await requireContent(fetched, { kind: 'elf', arch: hostArch() }, planned.input)
  await makeRunnable(fetched.path)
  return fetched.path
}

/** Programs get the mode that they have on the ISO, so that the tree can link them. */
async function makeRunnable(program: string): Promise<void> {
  await chmod(program, 0o755)
}
