import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Acquired,
  type AcquiredManifest,
  acquireBinaries,
  acquireHostKubeadm,
  acquireManifests,
  kubeadmOf,
  type Stages,
} from './acquire.ts'
import { platformOf } from './arch.ts'
import { Cancelled, Failure } from './errors.ts'
import { Downloads } from './fetch/download.ts'
import { type Containerd, type ContainerdBinaries, startContainerd } from './images/containerd.ts'
import { kubeadmImages } from './images/kubeadm.ts'
import type { PlannedImage, WantedImage } from './images/plan.ts'
import { type PulledImage, planImagesWithTags, pullImages } from './images/pull.ts'
import { provideContainerd } from './images/toolchain.ts'
import { findIsoWriter } from './iso/writer.ts'
import type { Log } from './log.ts'
import type { PieceCache } from './piece-cache.ts'
import { lockImages, requireLocked } from './plan/lock.ts'
import type { Plan } from './plan/plan.ts'
import { resolvePlan } from './plan/resolve.ts'
import { type Published, publish, removeEmpty, requireReplaceable, requireWritable } from './publish.ts'
import type { IsoRecord } from './record/record.ts'
import type { Lock } from './request/lock.ts'
import { registryMirrors } from './request/mirrors.ts'
import type { BuildRequest } from './request/request.ts'
import { type StageTime, Stopwatch } from './stopwatch.ts'
import { together } from './together.ts'
import { formatFindings } from './verify/finding.ts'
import { type Verdict, type VerifyRequest, verifyIso } from './verify/verify.ts'
import { type Workspace, withWorkspace } from './workspace.ts'

/** What a build needs besides the request. */
export interface BuildEnvironment {
  readonly log: Log
  /** Fires when the user cancels. */
  readonly cancel: AbortSignal
  /** An existing directory for everything that is in the making. */
  readonly tempDir: string
  /** The time that the ISO carries, in seconds since 1970; absent: when kubeadm was published. */
  readonly epoch?: number
  /** Pauses between tries of a download or pull, in milliseconds. */
  readonly pauses?: readonly number[]
  /** Keeps downloads and image archives from one run to the next. */
  readonly cache?: PieceCache
  /** A UUID by which {@link sweep} finds what is left of a build that was killed. */
  readonly runId?: string
}

/** A finished build. */
export interface BuildResult extends Published {
  readonly plan: Plan
  readonly record: IsoRecord
  readonly images: readonly PulledImage[]
  readonly stages: readonly StageTime[]
}

/** The time that an ISO carries when no server says when kubeadm was published: 2020-01-01. */
const FALLBACK_EPOCH = 1_577_836_800

/**
 * Builds an ISO and its versions.txt. Either both are in the output directory afterwards, whole, or none of this
 * build is.
 * @throws Failure saying what failed, on what, and what to do; Cancelled
 */
export async function build(request: BuildRequest, environment: BuildEnvironment): Promise<BuildResult> {
  return await withStages(request, environment, async (stages) => {
    const made = await requireWritable(request.outputDir)
    try {
      return await buildInto(request, environment, stages)
    } catch (thrown) {
      await removeEmpty(made)
      throw thrown
    }
  })
}

async function buildInto(
  request: BuildRequest,
  environment: BuildEnvironment,
  stages: Stages,
): Promise<BuildResult> {
  const { workspace, log } = stages
  const { lock, outputDir } = request
  const watch = new Stopwatch()
  const [writer, tools, plan] = await log.group('Plan', async () => {
    const parts = together(
      [findIsoWriter(workspace.programs, log), provideTools(stages), resolvePlan(request, stages)],
      workspace.stop,
    )
    const planned = await watch.time('Plan', parts)
    await requireReplaceable(outputDir, planned[2].name)
    logPlan(planned[2], log)
    return planned
  })
  const { files, images } = await log.group('Downloads and images', async () =>
    acquire(request, plan, tools, watch, stages),
  )
  const published = files.find(({ file }) => file.path === 'k8s/kubeadm')?.lastModified
  const epoch = lock?.record.epoch ?? environment.epoch ?? published ?? FALLBACK_EPOCH
  const record = recordOf(plan, epoch, files, images)
  if (lock !== undefined) requireLocked(record, lock)
  const archives = images.map(({ fileName, path }) => ({ path: `docker/${fileName}`, source: path }))
  const parts = { name: plan.name, record, files: [...files.map(({ file }) => file), ...archives], writer }
  const check = async (isoPath: string): Promise<void> => {
    if (!request.verify) {
      log.warning('verify is false: nobody has looked whether nodes can use this ISO.')
      return
    }
    const { arch, cloudstack } = plan
    const asked = { isoPath, arch, cloudstack, containerd: tools, workspace, log }
    const { findings } = await watch.time('Verify', requireSound('The finished ISO', asked))
    if (findings.length > 0) log.notice(formatFindings(findings))
  }
  const finished = await watch.time('ISO', publish(parts, outputDir, check, stages))
  return { plan, record, images, stages: watch.stages, ...finished }
}

/** Everything that goes onto the ISO, in so far as it comes from elsewhere. Downloads and pulls overlap. */
async function acquire(
  request: BuildRequest,
  plan: Plan,
  tools: ContainerdBinaries,
  watch: Stopwatch,
  stages: Stages,
): Promise<{ readonly files: readonly Acquired[]; readonly images: readonly PulledImage[] }> {
  const containerd = await startOwn(tools, request, stages)
  const binaries = watch.time('Programs and archives', acquireBinaries(plan, stages))
  const manifests = watch.time('Manifests', acquireManifests(plan, stages))
  const kubeadm = kubeadmOf(plan, binaries, stages)
  const pulling = imagesOf(plan, request.lock, kubeadm, manifests, containerd, stages).then((planned) =>
    watch.time('Images', pull(planned, plan, containerd, stages)),
  )
  const [binaryFiles, manifestFiles, images] = await together(
    [binaries, manifests.then((all) => all.flatMap(({ acquired }) => acquired)), pulling],
    stages.workspace.stop,
  )
  return { files: [...binaryFiles, ...manifestFiles], images }
}

/** @param what the ISO, for the message @throws Failure with every finding that would break a node */
async function requireSound(what: string, request: VerifyRequest): Promise<Verdict> {
  const verdict = await verifyIso(request)
  const errors = verdict.findings.filter(({ severity }) => severity === 'error')
  if (errors.length === 0) return verdict
  throw new Failure(
    `${what} would fail on a node: ${errors.length} ${errors.length === 1 ? 'fault' : 'faults'}`,
    formatFindings(errors),
  )
}

/**
 * Checks an ISO of any origin as nodes of a CloudStack release will use it.
 * @param cloudstack MAJOR.MINOR; undefined: as its versions.txt says
 * @returns findings that a node can live with
 * @throws Failure with every finding that would break a node, or when it is no ISO; Cancelled
 */
export async function verify(
  isoPath: string,
  cloudstack: string | undefined,
  environment: BuildEnvironment,
): Promise<Verdict> {
  return await withStages({ mirrors: [] }, environment, async (stages) => {
    const { workspace, log } = stages
    const containerd = await provideTools(stages)
    return await requireSound(isoPath, { isoPath, cloudstack, containerd, workspace, log })
  })
}

/** A plan with its images: everything that a build would put on the ISO, by name. */
export interface DetailedPlan extends Plan {
  readonly images: readonly PlannedImage[]
}

/**
 * Finds out what a build would do. Downloads the manifests and kubeadm, since they name the images, and nothing else.
 * @throws Failure; Cancelled
 */
export async function describePlan(
  request: BuildRequest,
  environment: BuildEnvironment,
): Promise<DetailedPlan> {
  return await withStages(request, environment, async (stages) => {
    const [containerd, plan] = await together(
      [ownContainerd(request, stages), resolvePlan(request, stages)],
      stages.workspace.stop,
    )
    const kubeadm = acquireHostKubeadm(plan, stages)
    const manifests = acquireManifests(plan, stages)
    const images = await imagesOf(plan, request.lock, kubeadm, manifests, containerd, stages)
    return { ...plan, images }
  })
}

async function withStages<T>(
  request: Pick<BuildRequest, 'mirrors'>,
  { log, cancel, tempDir, pauses, cache, runId }: BuildEnvironment,
  body: (stages: Stages) => Promise<T>,
): Promise<T> {
  const optional = pauses === undefined ? {} : { pauses }
  const kept = cache === undefined ? {} : { cache }
  try {
    const run = async (workspace: Workspace): Promise<T> => {
      const downloads = new Downloads({
        mirrors: request.mirrors,
        log,
        signal: workspace.signal,
        ...optional,
        ...kept,
      })
      return await body({ workspace, downloads, log, pauses: optional, ...kept })
    }
    return await withWorkspace(tempDir, cancel, run, runId)
  } catch (thrown) {
    // Whatever a stage says when it is cut short: the user asked for it.
    throw cancel.aborted ? new Cancelled('Cancelled; nothing is left behind.', { cause: thrown }) : thrown
  }
}

async function ownContainerd(request: BuildRequest, stages: Stages): Promise<Containerd> {
  return await startOwn(await provideTools(stages), request, stages)
}

async function provideTools({ workspace, downloads, log }: Stages): Promise<ContainerdBinaries> {
  return await provideContainerd({ downloads, dir: workspace.dir, log })
}

async function startOwn(
  binaries: ContainerdBinaries,
  request: BuildRequest,
  { workspace, log }: Stages,
): Promise<Containerd> {
  return await startContainerd({
    dir: join(workspace.dir, 'containerd'),
    programs: workspace.programs,
    binaries,
    mirrors: registryMirrors(request.mirrors),
    log,
  })
}

function logPlan(plan: Plan, log: Log): void {
  const versions = Object.entries(plan.versions).map(([name, version]) => `${name} ${version}`)
  log.info(`${plan.name}: ${versions.join(', ')}`)
}

/** Every image that the nodes need: kubeadm's own, those of the manifests, the user's, and those of a lock. */
async function imagesOf(
  plan: Plan,
  lock: Lock | undefined,
  kubeadm: Promise<string>,
  manifests: Promise<readonly AcquiredManifest[]>,
  containerd: Containerd,
  { workspace, log, pauses }: Stages,
): Promise<readonly PlannedImage[]> {
  const { kubernetes } = plan.versions
  const [ofKubeadm, ofManifests] = await together([
    kubeadm.then((program) => kubeadmImages(workspace.programs, program, kubernetes, log)),
    manifests,
  ])
  const wanted: readonly WantedImage[] = [
    ...ofKubeadm.map((reference) => ({ reference, source: `kubeadm ${kubernetes}` })),
    ...ofManifests.flatMap(({ images }) => images),
    ...plan.extraImages.map((reference) => ({ reference, source: 'extra-images' })),
    // Those that only extra-images asked for then.
    ...(lock?.record.images ?? []).map(({ reference }) => ({ reference, source: 'lock' })),
  ]
  const planned = await planImagesWithTags(wanted, { containerd, log, signal: workspace.signal, ...pauses })
  return lock === undefined ? planned : lockImages(planned, lock)
}

async function pull(
  planned: readonly PlannedImage[],
  { arch }: Plan,
  containerd: Containerd,
  { workspace, log, pauses, cache }: Stages,
): Promise<readonly PulledImage[]> {
  const { signal, stop } = workspace
  const dir = join(workspace.dir, 'archives')
  await mkdir(dir)
  const kept = cache === undefined ? {} : { cache }
  return await pullImages(planned, {
    containerd,
    log,
    signal,
    arch,
    dir,
    onFailure: stop,
    ...pauses,
    ...kept,
  })
}

function recordOf(
  plan: Plan,
  epoch: number,
  files: readonly Acquired[],
  images: readonly PulledImage[],
): IsoRecord {
  return {
    platform: platformOf(plan.arch),
    cloudstack: plan.cloudstack,
    epoch,
    versions: plan.versions,
    files: files.map(({ recorded }) => recorded),
    images: images.map(({ reference, digest, fileName }) => ({
      reference,
      digest,
      path: `docker/${fileName}`,
    })),
  }
}
