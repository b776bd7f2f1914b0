import type { Arch } from '../arch.ts'
import { formatOf } from '../fetch/content.ts'
import type { WantedImage } from '../images/plan.ts'
import { VOLUME_ID } from '../iso/kinds.ts'
import type { IsoEntry, IsoImage } from '../iso/reader.ts'
import { textOnIso } from '../iso/text.ts'
import { imagesOf } from '../manifests/images.ts'
import { parseManifest } from '../manifests/parse.ts'
import { AUTOSCALER_PLACEHOLDERS, type ContractFile, matches, type NodeContract } from './contract.ts'
import { errorAt, type Finding, findingOf, noticeAt, THE_ISO } from './finding.ts'
import { BrokenTar, readTar } from './tar.ts'

/** As many first bytes as tell what a file is. */
const HEAD = 64

const REBUILD = 'Build the ISO again, with this file in place.'

/** What the files outside docker/ are found to be. */
export interface Surveyed {
  readonly findings: readonly Finding[]
  /** The images that manifests name, each with the manifest. */
  readonly images: readonly WantedImage[]
}

/** Looks at the disk as a whole: whether a node finds it, and reads the names that were meant. */
export function checkDisk(iso: IsoImage): readonly Finding[] {
  return [
    ...(iso.volumeId === VOLUME_ID
      ? []
      : [
          errorAt(
            THE_ISO,
            iso.volumeId === '' ? 'has no volume id' : `has the volume id ${JSON.stringify(iso.volumeId)}`,
            `nodes of some CloudStack releases find the disk by the label ${VOLUME_ID} alone`,
            `Write the ISO with the option -V ${VOLUME_ID}.`,
          ),
        ]),
    ...(iso.rockRidge
      ? []
      : [
          errorAt(
            THE_ISO,
            'has no Rock Ridge names',
            'nodes see shortened or upper-case names instead of those that their scripts open',
            'Write the ISO with the option -R.',
          ),
        ]),
  ]
}

/** Compares the files outside docker/ with what the nodes of a CloudStack release open. */
export async function checkFiles(iso: IsoImage, contract: NodeContract, arch: Arch): Promise<Surveyed> {
  const findings: Finding[] = []
  for (const file of contract.files) findings.push(...(await checkContractFile(iso, file, arch)))
  findings.push(...(await checkEtcd(iso, arch)))
  findings.push(...(await checkDashboards(iso, contract)))
  findings.push(...(await checkTexts(iso)))
  const manifests = await checkManifests(iso)
  return { findings: [...findings, ...manifests.findings], images: manifests.images }
}

/** The files of an ISO, without directories. */
export function filesOf(iso: IsoImage): readonly IsoEntry[] {
  return iso.entries.filter(({ isDirectory }) => !isDirectory)
}

/** The architecture of a program of the ISO. @returns undefined when there is no such program, or of another one */
export async function archOfProgram(iso: IsoImage, path: string): Promise<Arch | undefined> {
  if (!has(iso, path)) return undefined
  const format = formatOf(await head(iso, path))
  return format.kind === 'elf' ? format.arch : undefined
}

async function checkContractFile(
  iso: IsoImage,
  { path, content, missing, why }: ContractFile,
  arch: Arch,
): Promise<readonly Finding[]> {
  const found = filesOf(iso).filter((file) => matches(path, file.path))
  const [first, second] = found
  if (first === undefined) {
    return [(missing === 'error' ? errorAt : noticeAt)(path, 'is missing', why, REBUILD)]
  }
  if (second !== undefined) {
    const all = found.map((file) => file.path).join(' and ')
    return [errorAt(path, `means ${all}, where one file is expected`, why, 'Leave one of them on the ISO.')]
  }
  if (content === 'elf') return await checkProgram(iso, first.path, arch)
  if (content === 'archive') return await checkProgramArchive(iso, first.path, arch)
  if (first.size === 0) return [errorAt(first.path, 'is empty', why, REBUILD)]
  return []
}

/** Etcd nodes open the archive by the name of amd64, whatever the architecture. */
async function checkEtcd(iso: IsoImage, arch: Arch): Promise<readonly Finding[]> {
  const archives = filesOf(iso).filter(({ path }) => path.startsWith('etcd/'))
  if (archives.length === 0) return []
  const asked = 'etcd/etcd-linux-amd64.tar.gz'
  const findings: Finding[] = []
  if (!archives.some(({ path }) => path === asked)) {
    const why = 'etcd nodes open the archive by this name on every architecture'
    findings.push(errorAt(asked, 'is missing', why, `Put the ${arch} archive there under this name, too.`))
  }
  for (const { path } of archives) findings.push(...(await checkProgramArchive(iso, path, arch)))
  return findings
}

async function checkProgram(iso: IsoImage, path: string, arch: Arch): Promise<readonly Finding[]> {
  const format = formatOf(await head(iso, path))
  if (format.kind === 'elf' && format.arch === arch) return []
  const is =
    format.kind === 'elf'
      ? `is a program for ${format.arch ?? 'another architecture'}, on an ISO for ${arch}`
      : `is no Linux program: ${beginning(format)}`
  return [errorAt(path, is, 'the node cannot run it', REBUILD)]
}

/** Unpacks an archive of programs through: it is whole, and what is in it runs on the node. */
async function checkProgramArchive(iso: IsoImage, path: string, arch: Arch): Promise<readonly Finding[]> {
  const why = 'the node cannot unpack or run what is in it'
  const fault = (what: string): Finding => errorAt(path, what, why, REBUILD)
  const format = formatOf(await head(iso, path))
  if (format.kind !== 'gzip') return [fault(`is no gzip archive: ${beginning(format)}`)]
  let programs = 0
  const foreign: string[] = []
  try {
    await readTar(iso.read(path), async (entry, content) => {
      if (!entry.isFile) return
      const found = formatOf(await headOf(content))
      if (found.kind !== 'elf') return
      programs++
      if (found.arch !== arch) foreign.push(`${entry.name} (${found.arch ?? 'another architecture'})`)
    })
  } catch (thrown) {
    if (thrown instanceof BrokenTar) return [fault(thrown.message)]
    throw thrown
  }
  if (programs === 0) return [fault('holds no Linux program')]
  return foreign.length === 0 ? [] : [fault(`holds programs that are not for ${arch}: ${foreign.join(', ')}`)]
}

/** Where cluster creation takes another manifest than upgrades do, both have to be there, and the same. */
async function checkDashboards(
  iso: IsoImage,
  { dashboardInstead }: NodeContract,
): Promise<readonly Finding[]> {
  if (dashboardInstead === undefined || !has(iso, dashboardInstead) || !has(iso, 'dashboard.yaml')) return []
  const [first, second] = [await textOnIso(iso, dashboardInstead), await textOnIso(iso, 'dashboard.yaml')]
  if (first === second) return []
  return [
    errorAt(
      'dashboard.yaml',
      `is not the same as ${dashboardInstead}`,
      `cluster creation applies ${dashboardInstead}, and upgrades apply dashboard.yaml: an upgraded cluster gets another dashboard`,
      'Carry the manifest under both names.',
    ),
  ]
}

async function checkTexts(iso: IsoImage): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  if (has(iso, 'autoscaler.yaml')) {
    const autoscaler = await textOnIso(iso, 'autoscaler.yaml')
    const missing = AUTOSCALER_PLACEHOLDERS.filter((placeholder) => !autoscaler.includes(placeholder))
    if (missing.length > 0) {
      const why = 'the node puts the cluster in their place with sed, so it would scale nothing'
      const fix = 'Take the manifest of the autoscaler project, with its placeholders as they are.'
      findings.push(errorAt('autoscaler.yaml', `has no ${missing.join(' and no ')}`, why, fix))
    }
  }
  for (const unit of ['kubelet.service', '10-kubeadm.conf']) {
    if (!has(iso, unit)) continue
    const content = await textOnIso(iso, unit)
    if (/^\s*</.test(content)) {
      findings.push(errorAt(unit, 'is an HTML or XML page', 'systemd cannot read it', REBUILD))
    } else if (content.includes('/usr/bin/kubelet')) {
      const why = 'nodes have kubelet in /opt/bin, so the unit cannot start'
      findings.push(errorAt(unit, 'starts /usr/bin/kubelet', why, 'Replace /usr/bin by /opt/bin in it.'))
    }
  }
  return findings
}

/** Nodes copy every manifest at the root, and apply or fill in those that they know. */
async function checkManifests(iso: IsoImage): Promise<Surveyed> {
  const findings: Finding[] = []
  const images: WantedImage[] = []
  for (const { path } of filesOf(iso)) {
    if (!matches('*.yaml', path)) continue
    try {
      const manifest = parseManifest(await textOnIso(iso, path), path)
      images.push(...imagesOf(manifest).map((reference) => ({ reference, source: path })))
    } catch (thrown) {
      findings.push(findingOf(thrown, path, 'kubectl refuses it on the node'))
    }
  }
  return { findings, images }
}

function has(iso: IsoImage, path: string): boolean {
  return iso.entries.some((entry) => entry.path === path && !entry.isDirectory)
}

async function head(iso: IsoImage, path: string): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of iso.read(path, { offset: 0, length: HEAD })) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** The first bytes of an entry; the rest of it flows past. */
async function headOf(content: AsyncIterable<Buffer>): Promise<Buffer> {
  let found = Buffer.alloc(0)
  for await (const bytes of content) {
    if (found.length < HEAD) found = Buffer.concat([found, bytes.subarray(0, HEAD)])
  }
  return found
}

function beginning(format: ReturnType<typeof formatOf>): string {
  if (format.kind !== 'other') return `it is ${format.kind === 'elf' ? 'a program' : 'a gzip archive'}`
  return format.start === '' ? 'it is empty' : `it begins ${JSON.stringify(format.start.slice(0, 40))}`
}
