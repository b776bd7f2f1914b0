import { type Arch, machineOf } from '../arch.ts'
import { Cancelled, Failure, joined } from '../errors.ts'
import type { Log } from '../log.ts'
import { type CloudStack, NoAnswer } from './client.ts'
import { allVersions } from './inventory.ts'
import { type Iso, isFields, isoOf, type SupportedVersion, versionOf, type Zone } from './model.ts'
import { Progress, pause } from './timing.ts'
import { minutes, sentenceOf, shownUrl } from './words.ts'

/** What is registered, where. */
export interface Registration {
  /** Kubernetes version, MAJOR.MINOR.PATCH. */
  readonly semver: string
  /** Its name in CloudStack; absent: made of version and architecture. */
  readonly name: string | undefined
  /** Where CloudStack downloads the ISO. */
  readonly url: string
  /** Of the ISO, 64 lower-case hexadecimal digits. */
  readonly sha256: string
  readonly arch: Arch
  readonly minCpu: number
  /** In MB. */
  readonly minMemory: number
  /** To primary storage at deployment, past the secondary storage; edge zones need it. */
  readonly directDownload: boolean
  /** Longest time for CloudStack's download, in milliseconds. */
  readonly timeout: number
}

export type RegisterOutcome = 'registered' | 'already there' | 'would register'

export interface Registered {
  /** Absent: all zones. */
  readonly zone: Zone | undefined
  readonly name: string
  /** Absent in a dry run for a version that is not there. */
  readonly id: string | undefined
  readonly outcome: RegisterOutcome
}

/**
 * Registers an ISO as a Kubernetes version in each of the zones, and waits until CloudStack has it.
 * @param zones empty: once, for all zones
 * @throws Failure with CloudStack's own reason, after what failed was cleaned up; Cancelled
 */
export async function register(
  api: CloudStack,
  registration: Registration,
  zones: readonly Zone[],
  context: { readonly dryRun: boolean; readonly log: Log },
): Promise<readonly Registered[]> {
  const places = zones.length === 0 ? [undefined] : zones
  const found = await isosOfVersion(api, registration)
  // All questions come before the first change: a clash in one zone leaves the others untouched.
  const present = places.map((zone) => presentIn(zone, found, registration))
  const settled = await Promise.allSettled(
    places.map((zone, index) => registerIn(api, registration, zone, present[index], context)),
  )
  const failures = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
  const reason = failures.find((each) => !(each instanceof Failure)) ?? failures[0]
  if (failures.length > 1 && reason instanceof Failure) {
    throw joined(
      `of ${places.length} zones failed`,
      failures.filter((each) => each instanceof Failure),
    )
  }
  if (reason !== undefined) throw reason
  return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
}

/** The name of the version in CloudStack, from which CloudStack also makes the name of the ISO. */
export function versionName(registration: Pick<Registration, 'name' | 'semver' | 'arch'>): string {
  return registration.name ?? `v${registration.semver}-${machineOf(registration.arch)}`
}

/** How far CloudStack's copies of an ISO are. */
export type Readiness =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'waiting'; readonly phase: string }

/** States in which CloudStack's download is over without success (VMTemplateStorageResourceAssoc.Status). */
const ENDED_BADLY = ['DOWNLOAD_ERROR', 'ABANDONED']

/**
 * @param isoState of the version: `Ready` and `Failed` are the two ends, and CloudStack's own smoke test waits for
 *   them. It stands for one zone only, so the ISO's rows decide what is ready.
 * @param isos a row a zone; a failed row's status is the reason (TemplateJoinDaoImpl.getTemplateStatus)
 */
export function readinessOf(isoState: string | undefined, isos: readonly Iso[]): Readiness {
  const failed = isos.find(
    ({ downloads }) => downloads.length > 0 && downloads.every(({ state }) => ENDED_BADLY.includes(state)),
  )
  if (failed !== undefined || isoState === 'Failed') {
    const status = (failed ?? isos.find(({ ready }) => !ready))?.status
    return { kind: 'failed', reason: status || 'CloudStack gives no reason' }
  }
  if (isos.length > 0 && isos.every(({ ready }) => ready)) return { kind: 'ready' }
  const phases = isos
    .filter(({ ready }) => !ready)
    .map(({ zone, status, downloads }) => {
      const shares = downloads.map(({ store, percent }) => `${store} ${percent}%`).join(', ')
      return `${zone}: ${status || 'waiting'}${shares === '' ? '' : ` (${shares})`}`
    })
  return { kind: 'waiting', phase: phases.join('; ') || isoState || 'waiting' }
}

interface Found {
  readonly version: SupportedVersion
  readonly isos: readonly Iso[]
}

/** Every registered ISO of this Kubernetes version and architecture. */
async function isosOfVersion(api: CloudStack, { semver, arch }: Registration): Promise<readonly Found[]> {
  const versions = (await allVersions(api)).filter(
    (version) => version.semver === semver && (version.arch ?? arch) === arch,
  )
  const found = await Promise.all(
    versions.map(async (version) => ({ version, isos: await isosOf(api, version) })),
  )
  return found.filter(({ isos }) => isos.every((iso) => (iso.arch ?? arch) === arch))
}

async function isosOf(api: CloudStack, { isoId, zoneId }: SupportedVersion): Promise<readonly Iso[]> {
  if (isoId === undefined) return []
  const zone = zoneId === undefined ? {} : { zoneid: zoneId }
  return (await api.list('listIsos', 'iso', { id: isoId, isofilter: 'all', ...zone })).map(isoOf)
}

/**
 * The version that makes registering needless: the same ISO, usable in the zone.
 * @throws Failure when another ISO has that Kubernetes version there, unless the user gave this one its own name
 */
function presentIn(
  zone: Zone | undefined,
  found: readonly Found[],
  registration: Registration,
): SupportedVersion | undefined {
  const here = found.filter(({ version }) => version.zoneId === undefined || version.zoneId === zone?.id)
  const same = here.find(({ isos }) => isos.some(({ checksum }) => checksum === registration.sha256))
  if (same !== undefined) return same.version
  const clash = here.find(({ version }) => [undefined, version.name].includes(registration.name))
  if (clash === undefined) return undefined
  const known = clash.isos[0]?.checksum
  throw new Failure(
    `${named(registration)}: Kubernetes ${registration.semver} is registered ${placeOf(zone)} already as ${clash.version.name} (${clash.version.id}) with ${known?.length === 64 ? `SHA-256 ${known}, which is another ISO than ${registration.sha256}` : `the checksum ${known ?? '(none)'}, which is no SHA-256 to compare with`}`,
    'Remove that version from CloudStack, or give this ISO a name of its own with version-name.',
  )
}

async function registerIn(
  api: CloudStack,
  registration: Registration,
  zone: Zone | undefined,
  present: SupportedVersion | undefined,
  { dryRun, log }: { readonly dryRun: boolean; readonly log: Log },
): Promise<Registered> {
  const what = `${named(registration)} ${placeOf(zone)}`
  if (present !== undefined) {
    log.info(`${what}: ${present.name} (${present.id}) is this ISO already`)
    if (!present.enabled) {
      log.warning(
        `${what}: ${present.name} (${present.id}) is disabled in CloudStack; no cluster can be upgraded to it`,
      )
    }
    if (!dryRun) await untilReady(api, registration, present, what, log)
    return { zone, name: present.name, id: present.id, outcome: 'already there' }
  }
  const name = versionName(registration)
  if (dryRun) return { zone, name, id: undefined, outcome: 'would register' }
  log.info(`${what}: as ${name}, from ${shownUrl(registration.url)}`)
  const version = await added(api, registration, zone, what, log)
  try {
    await untilReady(api, registration, version, what, log)
  } catch (thrown) {
    if (!(thrown instanceof DownloadFailed)) throw thrown
    await removed(api, version, what, log)
    throw thrown
  }
  log.info(`${what}: ready`)
  return { zone, name: version.name, id: version.id, outcome: 'registered' }
}

async function added(
  api: CloudStack,
  registration: Registration,
  zone: Zone | undefined,
  what: string,
  log: Log,
): Promise<SupportedVersion> {
  // Parameters and their meaning: AddKubernetesSupportedVersionCmd. Releases before 4.20 do not know `arch`, before
  // 4.18.2 `directdownload`; a parameter that CloudStack does not know it leaves aside.
  const parameters = {
    name: versionName(registration),
    semanticversion: registration.semver,
    url: registration.url,
    checksum: `{SHA-256}${registration.sha256}`,
    arch: machineOf(registration.arch),
    mincpunumber: String(registration.minCpu),
    minmemory: String(registration.minMemory),
    ...(registration.directDownload ? { directdownload: 'true' } : {}),
    ...(zone === undefined ? {} : { zoneid: zone.id }),
  }
  try {
    const { kubernetessupportedversion: fields } = await api.change(
      'addKubernetesSupportedVersion',
      parameters,
    )
    if (!isFields(fields))
      throw new Failure(`${what}: CloudStack answered without a version`, 'Look into CloudStack.')
    return versionOf(fields)
  } catch (thrown) {
    if (!(thrown instanceof NoAnswer) || !thrown.mayHaveHappened) throw thrown
    log.info(`${what}: the answer was lost (${thrown.reason}); looking whether it took effect`)
    const deadline = Date.now() + api.timing.settle
    do {
      await pause(api.timing.poll, api.signal)
      const found = await isosOfVersion(api, registration)
      const ours = found.find(
        ({ version, isos }) =>
          version.zoneId === zone?.id && isos.some(({ checksum }) => checksum === registration.sha256),
      )
      if (ours !== undefined) return ours.version
    } while (Date.now() < deadline)
    throw thrown
  }
}

/** CloudStack gave up on the download. */
class DownloadFailed extends Failure {}

async function untilReady(
  api: CloudStack,
  registration: Registration,
  { id, name }: SupportedVersion,
  what: string,
  log: Log,
): Promise<void> {
  const deadline = Date.now() + registration.timeout
  const progress = new Progress((text) => log.info(`${what}: ${text}`), api.timing.remind)
  try {
    for (;;) {
      const [fields] = await api.list('listKubernetesSupportedVersions', 'kubernetessupportedversion', { id })
      if (fields === undefined)
        throw new Failure(`${what}: ${name} (${id}) is gone from CloudStack`, 'Run again.')
      const version = versionOf(fields)
      const readiness = readinessOf(version.isoState, await isosOf(api, version))
      if (readiness.kind === 'ready') return
      if (readiness.kind === 'failed') {
        throw new DownloadFailed(
          `${what}: CloudStack could not download ${shownUrl(registration.url)}: ${readiness.reason}`,
          `Open iso-url from the secondary storage VM of the zone, and look at iso-checksum; a version left from an earlier run (${name}, ${id}) is to be removed from CloudStack first.`,
        )
      }
      if (Date.now() > deadline) {
        throw new Failure(
          `${what}: ${name} (${id}) is not ready within ${minutes(registration.timeout)}: ${readiness.phase}`,
          'CloudStack goes on downloading: run again to go on waiting, and allow more time with register-timeout.',
        )
      }
      progress.is(readiness.phase)
      await pause(api.timing.poll, api.signal)
    }
  } catch (thrown) {
    if (thrown instanceof Cancelled) {
      log.warning(
        `${what}: cancelled; ${name} (${id}) stays registered and CloudStack goes on downloading it`,
      )
    }
    throw thrown
  }
}

/** Takes back a registration that failed, as well as it can: the failure itself is what the user hears. */
async function removed(
  api: CloudStack,
  { id, name }: SupportedVersion,
  what: string,
  log: Log,
): Promise<void> {
  try {
    const job = await api.change('deleteKubernetesSupportedVersion', { id })
    await api.job(job, `${what}: removing ${name} (${id}) again`, CLEAN_UP)
    log.info(`${what}: ${name} (${id}) is removed again`)
  } catch (thrown) {
    log.warning(
      `${what}: ${name} (${id}) failed and is still in CloudStack: ${sentenceOf(thrown)}. Remove it there.`,
    )
  }
}

/** In milliseconds. */
const CLEAN_UP = 5 * 60_000

function named({ semver, arch }: Registration): string {
  return `register Kubernetes ${semver} (${machineOf(arch)})`
}

function placeOf(zone: Zone | undefined): string {
  return zone === undefined ? 'in all zones' : `in zone ${zone.name}`
}
