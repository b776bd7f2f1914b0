import { createHash } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import pMap, { pMapSkip } from 'p-map'
import { type Arch, hostArch, parseArch } from '../arch.ts'
import { DEFAULTS } from '../defaults.ts'
import { Cancelled, fileFailure } from '../errors.ts'
import type { ContainerdBinaries } from '../images/containerd.ts'
import type { WantedImage } from '../images/plan.ts'
import { lookupName, tryReference } from '../images/reference.ts'
import { type IsoEntry, type IsoImage, openIso } from '../iso/reader.ts'
import { textOnIso } from '../iso/text.ts'
import type { Log } from '../log.ts'
import { type IsoRecord, parseRecord } from '../record/record.ts'
import type { Workspace } from '../workspace.ts'
import { type Archive, inspectArchive } from './archive.ts'
import { contractOf } from './contract.ts'
import { archOfProgram, checkDisk, checkFiles, filesOf } from './files.ts'
import { errorAt, type Finding, findingOf, noticeAt } from './finding.ts'
import { type Importer, startImporter } from './import.ts'
import { checkRecord, RECORD } from './record.ts'
import { checkReferences } from './references.ts'

export interface VerifyRequest {
  readonly isoPath: string
  /** MAJOR.MINOR of the CloudStack release whose nodes shall use the ISO; absent: as versions.txt says, else the default. */
  readonly cloudstack?: string | undefined
  /** Of the nodes; absent: as versions.txt, else kubeadm, says. */
  readonly arch?: Arch
  /** What `kubeadm config images list` names; absent: kubeadm's images are known by their names. */
  readonly kubeadmImages?: readonly string[]
  readonly containerd: ContainerdBinaries
  readonly workspace: Workspace
  readonly log: Log
}

const DOCKER = 'docker/'

/** Archives that are unpacked at once. */
const CONCURRENCY = 2

/** What came of a look at an ISO. */
export interface Verdict {
  /** Errors and notices; empty when all is well. */
  readonly findings: readonly Finding[]
  /** MAJOR.MINOR of the CloudStack release that it was looked at for. */
  readonly cloudstack: string
}

/**
 * Looks at a finished ISO of any origin as nodes will: its names and files, its archives, which a fresh containerd
 * imports, the images that its manifests ask for, and its versions.txt.
 * @throws Failure when it is no ISO or cannot be read, or when containerd does not run; Cancelled
 */
export async function verifyIso(request: VerifyRequest): Promise<Verdict> {
  const { isoPath, containerd, workspace, log, kubeadmImages = [] } = request
  const iso = await openIso(isoPath)
  try {
    const { record, findings: ofRecord } = await readRecord(iso)
    const cloudstack = request.cloudstack ?? record?.cloudstack ?? DEFAULTS.cloudstack
    const arch = request.arch ?? (await archOf(iso, record))
    const files = await checkFiles(iso, contractOf(cloudstack), arch)
    const importer = await startImporter({ binaries: containerd, arch, workspace, log })
    const { archives: read, findings: ofArchives } = await checkArchives(iso, arch, importer, workspace)
    const archives = read.map((archive) => withRecordedNames(archive, record))
    const wanted: readonly WantedImage[] = [
      ...files.images,
      ...kubeadmImages.map((reference) => ({ reference, source: 'kubeadm' })),
      ...(record?.images ?? []).map(({ reference }) => ({ reference, source: RECORD })),
    ]
    const findings = [
      ...checkDisk(iso),
      ...files.findings,
      ...ofArchives,
      ...checkReferences(archives, wanted, await importer.names(), kubeadmImages.length > 0),
      ...ofRecord,
      ...(record === undefined ? [] : checkRecord(record, await hashFiles(iso, workspace), archives, arch)),
    ]
    return { findings, cloudstack }
  } finally {
    await iso.close()
  }
}

async function readRecord(
  iso: IsoImage,
): Promise<{ readonly record?: IsoRecord; readonly findings: readonly Finding[] }> {
  const why = 'nodes do not read it, but without it nobody can tell what is on the ISO, nor build it again'
  if (!filesOf(iso).some(({ path }) => path === RECORD)) {
    return { findings: [noticeAt(RECORD, 'is missing', why, 'Build the ISO with this program.')] }
  }
  try {
    return { record: parseRecord(await textOnIso(iso, RECORD), RECORD), findings: [] }
  } catch (thrown) {
    return { findings: [findingOf(thrown, RECORD, why)] }
  }
}

/** The architecture that an ISO is for, by what it says itself. */
async function archOf(iso: IsoImage, record: IsoRecord | undefined): Promise<Arch> {
  const [os, architecture = ''] = record?.platform.split('/') ?? []
  if (os === 'linux') return parseArch(architecture)
  return (await archOfProgram(iso, 'k8s/kubeadm')) ?? hostArch()
}

/** An unreadable archive counts as what versions.txt says it is, so that one fault is not reported as many. */
function withRecordedNames(archive: Archive, record: IsoRecord | undefined): Archive {
  if (archive.names.length > 0) return archive
  const references = record?.images.filter(({ path }) => path === archive.path) ?? []
  const names = references.flatMap(({ reference }) => {
    const parsed = tryReference(reference)
    return parsed === undefined ? [] : [{ name: lookupName(parsed) }]
  })
  return { ...archive, names }
}

async function checkArchives(
  iso: IsoImage,
  arch: Arch,
  importer: Importer,
  workspace: Workspace,
): Promise<{ readonly archives: readonly Archive[]; readonly findings: readonly Finding[] }> {
  const dir = join(workspace.dir, 'verify-archives')
  await mkdir(dir)
  const entries = iso.entries.filter(({ path }) => path.startsWith(DOCKER))
  const failures: unknown[] = []
  const checked = await pMap(
    entries.entries(),
    async ([index, entry]) => {
      if (failures.length > 0) return pMapSkip
      try {
        const file = join(dir, `${index}.tar`)
        return { entry, archive: await checkArchive(iso, entry, file, arch, importer, workspace) }
      } catch (thrown) {
        failures.push(thrown)
        return pMapSkip
      }
    },
    { concurrency: CONCURRENCY },
  )
  const [failure] = failures
  if (failure !== undefined) throw failure
  return {
    archives: checked.filter(({ entry }) => !entry.isDirectory).map(({ archive }) => archive),
    findings: checked.flatMap(({ archive }) => archive.findings),
  }
}

/** @param file where the archive is put for the import */
async function checkArchive(
  iso: IsoImage,
  { path, size, isDirectory }: IsoEntry,
  file: string,
  arch: Arch,
  importer: Importer,
  { signal }: Workspace,
): Promise<Archive> {
  if (isDirectory) {
    const why = 'nodes hand every name under docker/ to an import, which fails for a directory'
    const findings = [errorAt(path, 'is a directory', why, 'Leave it out.')]
    return { path, size, names: [], findings }
  }
  const archive = await inspectArchive({ path, size }, kept(iso.read(path), file), arch)
  if (signal.aborted) throw new Cancelled('Cannot check the ISO: cancelled')
  // What is known of the archive by now says more than what containerd would make of it.
  const refused = archive.findings.length > 0 ? undefined : await importer.import(file)
  await rm(file, { force: true })
  if (refused === undefined) return archive
  const what = `cannot be imported${importer.unpacks ? ' and unpacked' : ''}: ${refused}`
  const why = 'a node imports it in the same way; a failure stops an upgrade, and the image is missing'
  const fix = 'Write this archive again, from a fresh pull of its image.'
  return { ...archive, findings: [errorAt(path, what, why, fix)] }
}

/** Passes content on, and keeps it in a file: it is read but once. */
async function* kept(content: AsyncIterable<Buffer>, file: string): AsyncGenerator<Buffer, void> {
  try {
    const handle = await open(file, 'wx')
    try {
      for await (const piece of content) {
        await handle.writeFile(piece)
        yield piece
      }
    } finally {
      await handle.close()
    }
  } catch (thrown) {
    throw fileFailure('Cannot keep an archive of the ISO for its import', file, thrown)
  }
}

/** SHA-256 of every file outside docker/, by path. */
async function hashFiles(iso: IsoImage, { signal }: Workspace): Promise<ReadonlyMap<string, string>> {
  const hashes = new Map<string, string>()
  for (const { path } of filesOf(iso)) {
    if (path.startsWith(DOCKER)) continue
    const hash = createHash('sha256')
    for await (const piece of iso.read(path)) {
      if (signal.aborted) throw new Cancelled('Cannot check the ISO: cancelled')
      hash.update(piece)
    }
    hashes.set(path, hash.digest('hex'))
  }
  return hashes
}
