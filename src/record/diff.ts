import { lookupName, repositoryOf, tryReference } from '../images/reference.ts'
import { VERSION_NAMES, type VersionName } from '../plan/plan.ts'
import type { IsoRecord, RecordedFile, RecordedImage } from './record.ts'

/** A value that differs. */
export interface Moved<T> {
  readonly from: T
  readonly to: T
}

/** What one part of a record has and another has not, and what both have with another content. */
export interface Changes<T> {
  readonly added: readonly T[]
  readonly removed: readonly T[]
  readonly moved: readonly Moved<T>[]
}

/** A version with its name. */
export interface NamedVersion {
  readonly name: VersionName
  readonly version: string
}

/** What changed from one ISO to another. Plain data: this is the JSON form. */
export interface RecordDiff {
  /** Absent when both are for one platform. */
  readonly platform?: Moved<string>
  /** MAJOR.MINOR; absent when both were laid out for one release. */
  readonly cloudstack?: Moved<string>
  /** Seconds since 1970; absent when both carry one time. */
  readonly epoch?: Moved<number>
  readonly versions: Changes<NamedVersion>
  /** By path; moved when the content differs. */
  readonly files: Changes<RecordedFile>
  /** By the name that nodes look up; moved when that name has another digest, or its repository one other name. */
  readonly images: Changes<RecordedImage>
}

/** Compares two records: what has to happen to the first to get the second. */
export function diffRecords(from: IsoRecord, to: IsoRecord): RecordDiff {
  return {
    ...(from.platform === to.platform ? {} : { platform: { from: from.platform, to: to.platform } }),
    ...(from.cloudstack === to.cloudstack
      ? {}
      : { cloudstack: { from: from.cloudstack, to: to.cloudstack } }),
    ...(from.epoch === to.epoch ? {} : { epoch: { from: from.epoch, to: to.epoch } }),
    versions: changes(
      versionsOf(from),
      versionsOf(to),
      ({ name }) => name,
      (a, b) => a.version === b.version,
    ),
    files: changes(
      from.files,
      to.files,
      ({ path }) => path,
      (a, b) => a.sha256 === b.sha256,
    ),
    images: withNewTags(
      changes(
        from.images,
        to.images,
        ({ reference }) => nameOf(reference),
        (a, b) => a.digest === b.digest,
      ),
    ),
  }
}

/** True when two records tell of the same ISO. */
export function isSame({ platform, cloudstack, epoch, versions, files, images }: RecordDiff): boolean {
  const parts: readonly Changes<unknown>[] = [versions, files, images]
  const isQuiet = parts.every((part) =>
    [part.added, part.removed, part.moved].every(({ length }) => length === 0),
  )
  return platform === undefined && cloudstack === undefined && epoch === undefined && isQuiet
}

/** The difference for people: a line a change, `+` for added, `-` for removed, `~` for moved. */
export function formatDiff(diff: RecordDiff): string {
  if (isSame(diff)) return 'No difference.\n'
  const { platform, cloudstack, epoch, versions, files, images } = diff
  const lines = [
    ...(platform === undefined ? [] : [`~ platform ${platform.from} -> ${platform.to}`]),
    ...(cloudstack === undefined ? [] : [`~ cloudstack ${cloudstack.from} -> ${cloudstack.to}`]),
    ...(epoch === undefined ? [] : [`~ epoch ${epoch.from} -> ${epoch.to}`]),
    ...linesOf(
      versions,
      ({ name, version }) => `version ${name} ${version}`,
      (a, b) => `version ${a.name} ${a.version} -> ${b.version}`,
    ),
    ...linesOf(
      files,
      ({ path, sha256 }) => `file ${path} sha256:${sha256}`,
      (a, b) => `file ${a.path} sha256:${a.sha256} -> sha256:${b.sha256}`,
    ),
    ...linesOf(
      images,
      ({ reference, digest }) => `image ${reference} ${digest}`,
      (a, b) =>
        a.reference === b.reference
          ? `image ${a.reference} ${a.digest} -> ${b.digest}`
          : `image ${a.reference} ${a.digest} -> ${b.reference} ${b.digest}`,
    ),
  ]
  return `${lines.join('\n')}\n`
}

function linesOf<T>(
  { added, removed, moved }: Changes<T>,
  one: (item: T) => string,
  two: (from: T, to: T) => string,
): readonly string[] {
  return [
    ...removed.map((item) => `- ${one(item)}`),
    ...added.map((item) => `+ ${one(item)}`),
    ...moved.map(({ from, to }) => `~ ${two(from, to)}`),
  ]
}

function versionsOf({ versions }: IsoRecord): readonly NamedVersion[] {
  return VERSION_NAMES.flatMap((name) => {
    const version = versions[name]
    return version === undefined ? [] : [{ name, version }]
  })
}

function nameOf(reference: string): string {
  const parsed = tryReference(reference)
  return parsed === undefined ? reference : lookupName(parsed)
}

function changes<T>(
  from: readonly T[],
  to: readonly T[],
  keyOf: (item: T) => string,
  isEqual: (a: T, b: T) => boolean,
): Changes<T> {
  const before = new Map(from.map((item) => [keyOf(item), item]))
  const after = new Set(to.map(keyOf))
  const moved: Moved<T>[] = []
  const added: T[] = []
  for (const item of to) {
    const twin = before.get(keyOf(item))
    if (twin === undefined) added.push(item)
    else if (!isEqual(twin, item)) moved.push({ from: twin, to: item })
  }
  return { added, removed: from.filter((item) => !after.has(keyOf(item))), moved }
}

/** An image whose tag went up is one that moved: where a repository lost one name and got one. */
function withNewTags({ added, removed, moved }: Changes<RecordedImage>): Changes<RecordedImage> {
  const pairs = removed.flatMap((from): readonly Moved<RecordedImage>[] => {
    const lost = removed.filter((other) => repository(other) === repository(from))
    const [to, ...others] = added.filter((other) => repository(other) === repository(from))
    return to === undefined || others.length > 0 || lost.length > 1 ? [] : [{ from, to }]
  })
  return {
    added: added.filter((item) => !pairs.some(({ to }) => to === item)),
    removed: removed.filter((item) => !pairs.some(({ from }) => from === item)),
    moved: [...moved, ...pairs],
  }
}

function repository({ reference }: RecordedImage): string {
  const parsed = tryReference(reference)
  return parsed === undefined ? reference : repositoryOf(parsed)
}
