import { hostArch, platformOf } from '../arch.ts'
import { Failure, throwProblems } from '../errors.ts'
import { askedBy } from '../images/fetch.ts'
import type { PlannedImage } from '../images/plan.ts'
import { formatRecord, type IsoRecord, type RecordedFile } from '../record/record.ts'
import { type Lock, notAsLocked } from '../request/lock.ts'
import { hasUser } from '../request/mirrors.ts'
import { type FileSource, MANIFEST_PATHS, type Plan, VERSION_NAMES } from './plan.ts'

/** Holds a build to the record of an earlier one: its plan, its images, and what came out. Pure. */

/** Differing lines that an error shows. */
const MOST_LINES = 10

/** Roles of manifests that may be a file of the user's. */
const OWN_MANIFESTS = ['network', 'dashboard'] as const

/**
 * Ties a plan to a lock: every file comes from where the lock says, and has to be what it was.
 * @throws Failure when the plan is for something else than the lock, or the lock does not know a file of it
 */
export function lockPlan(plan: Plan, lock: Lock): Plan {
  const own = OWN_MANIFESTS.filter((role) => isOwnFile(role, plan, lock))
  // A file has another path on another machine. What is in it has to be the same, and goes by the name it had.
  const names = Object.fromEntries(own.map((role) => [role, lock.record.versions[role]]))
  const versions = { ...plan.versions, ...names }
  requireSameChoices({ ...plan, versions }, lock)
  const binaries = plan.binaries.map((binary) => locked(binary, binary.paths[0], lock))
  const kubeadm = binaries.find(({ paths }) => paths[0] === 'k8s/kubeadm')
  return {
    ...plan,
    versions,
    binaries,
    hostKubeadm: plan.arch === hostArch() && kubeadm !== undefined ? kubeadm : plan.hostKubeadm,
    manifests: plan.manifests.map((manifest) => locked(manifest, MANIFEST_PATHS[manifest.role], lock)),
  }
}

/**
 * Ties images to a lock: each has to be there, and what its reference points at has to be what it was.
 * @throws Failure for images that the lock does not know
 */
export function lockImages(images: readonly PlannedImage[], lock: Lock): readonly PlannedImage[] {
  const problems: Failure[] = []
  const tied = images.map((image) => {
    const recorded = lock.record.images.find(({ reference }) => reference === image.reference)
    if (recorded === undefined) problems.push(unknownImage(image, lock))
    else if (image.digest !== undefined && image.digest !== recorded.digest) {
      problems.push(notAsLocked(`The image ${image.reference}`, image.digest, recorded.digest))
    }
    return recorded === undefined ? image : { ...image, lockedDigest: recorded.digest }
  })
  throwProblems('images are not those of the lock', problems)
  return tied
}

/** The last check of a locked build: its record is the lock's, line for line. @throws Failure with the lines that differ */
export function requireLocked(record: IsoRecord, lock: Lock): void {
  const [then, now] = [lock.record, record].map((each) => formatRecord(each).split('\n'))
  if (then === undefined || now === undefined || then.join('\n') === now.join('\n')) return
  const lines = [
    ...then.filter((line) => !now.includes(line)).map((line) => `- ${line}`),
    ...now.filter((line) => !then.includes(line)).map((line) => `+ ${line}`),
  ]
  const more = lines.length > MOST_LINES ? `\n… and ${lines.length - MOST_LINES} more` : ''
  throw new Failure(
    `What was built differs from the lock ${lock.name} (- the lock, + this build):\n${lines.slice(0, MOST_LINES).join('\n')}${more}`,
    'Build with the release of cks-iso that the lock comes from, or leave lock empty.',
  )
}

function isOwnFile(role: (typeof OWN_MANIFESTS)[number], plan: Plan, { record }: Lock): boolean {
  const planned = plan.manifests.find((manifest) => manifest.role === role)
  const line = record.files.find(({ path }) => path === MANIFEST_PATHS[role])
  return planned?.source.kind === 'file' && line?.source.startsWith('file:') === true
}

function requireSameChoices(plan: Plan, { name, record }: Lock): void {
  const choices: readonly (readonly [string, string | undefined, string | undefined])[] = [
    ['arch', platformOf(plan.arch), record.platform],
    ['cloudstack-version', plan.cloudstack, record.cloudstack],
    ...VERSION_NAMES.map((each) => [INPUT_OF[each], plan.versions[each], record.versions[each]] as const),
  ]
  const problems = choices
    .filter(([, chosen, recorded]) => chosen !== recorded)
    .map(
      ([input, chosen, recorded]) =>
        new Failure(
          `${input}: this build is for ${chosen ?? 'none'}, and the lock ${name} for ${recorded ?? 'none'}`,
          `Leave ${input} empty to take what the lock says, or leave lock empty.`,
        ),
    )
  throwProblems('inputs contradict the lock', problems)
}

const INPUT_OF = {
  kubernetes: 'kubernetes-version',
  'cni-plugins': 'cni-version',
  crictl: 'crictl-version',
  etcd: 'etcd-version',
  autoscaler: 'autoscaler-version',
  ccm: 'ccm-version',
  csi: 'csi-version',
  network: 'network',
  dashboard: 'dashboard',
} as const satisfies Record<(typeof VERSION_NAMES)[number], string>

function locked<T extends { readonly what: string; readonly input: string; readonly source: FileSource }>(
  planned: T,
  path: string,
  lock: Lock,
): T {
  const line = lock.record.files.find((file) => file.path === path)
  if (line === undefined) {
    throw badLock(lock, `has no line for ${path}, which a build of these versions has on the ISO`)
  }
  const { source } = planned
  const lockedSha256 = line.sourceSha256 ?? line.sha256
  if (source.kind === 'text') return planned
  if (source.kind === 'file') return { ...planned, source: { ...source, name: line.source, lockedSha256 } }
  return {
    ...planned,
    input: 'lock',
    source: { kind: 'url', candidates: [{ url: webAddress(line, lock), lockedSha256 }] },
  }
}

/** @throws Failure for what is no URL to download from */
function webAddress({ path, source }: RecordedFile, lock: Lock): string {
  if (URL.canParse(source) && /^https?:$/.test(new URL(source).protocol) && !hasUser(source)) return source
  throw badLock(lock, `does not say from which URL ${path} came`)
}

function unknownImage(image: PlannedImage, { name }: Lock): Failure {
  return new Failure(
    `The image ${image.reference}${askedBy(image)} is not in the lock ${name}`,
    'Take it out of extra-images, or leave lock empty.',
  )
}

function badLock({ name }: Lock, what: string): Failure {
  return new Failure(`The lock ${name} ${what}`, 'Take the versions.txt of a build as it is.')
}
