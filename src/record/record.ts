import { Failure } from '../errors.ts'
import { tryReference } from '../images/reference.ts'
import { VERSION_NAMES, type VersionName } from '../plan/plan.ts'

/** A file of the ISO and where it came from. */
export interface RecordedFile {
  /** Path on the ISO. */
  readonly path: string
  /** Of the file as it stands on the ISO: 64 lower-case hexadecimal digits. */
  readonly sha256: string
  /** The original URL, or `file:` and a path for a file of the user's own. */
  readonly source: string
  /** Of the file as it was published, where the ISO carries an edited copy. */
  readonly sourceSha256?: string
}

/** An image of the ISO. */
export interface RecordedImage {
  /** As the node knows it: `name:tag`, `name@digest`, or `name:tag@digest` for both names. */
  readonly reference: string
  /** `sha256:…` of the index, or of the manifest where there is no index. */
  readonly digest: string
  /** Path of its archive on the ISO. */
  readonly path: string
}

/** What went into an ISO: the content of versions.txt. */
export interface IsoRecord {
  /** `linux/amd64` or `linux/arm64`. */
  readonly platform: string
  /** MAJOR.MINOR of the CloudStack release that the ISO was laid out for. */
  readonly cloudstack: string
  /** The time that all of the ISO carries, in seconds since 1970: a rebuild takes it over. */
  readonly epoch: number
  readonly versions: Readonly<Partial<Record<VersionName, string>>>
  readonly files: readonly RecordedFile[]
  readonly images: readonly RecordedImage[]
}

const HEADING = '# cks-iso versions 1'
const SHA256 = /^[0-9a-f]{64}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/

/**
 * Writes versions.txt: a line a fact, words parted by one blank, ordered so that equal builds give equal bytes. Its
 * format is told in docs/versions-txt.md.
 */
export function formatRecord(record: IsoRecord): string {
  const byPath = <T extends { readonly path: string }>(items: readonly T[]): readonly T[] =>
    items.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const lines = [
    HEADING,
    `platform ${record.platform}`,
    `cloudstack ${record.cloudstack}`,
    `epoch ${record.epoch}`,
    ...VERSION_NAMES.flatMap((name) => {
      const version = record.versions[name]
      return version === undefined ? [] : [`version ${name} ${encode(version)}`]
    }),
    ...byPath(record.files).map((file) =>
      [
        'file',
        encode(file.path),
        `sha256:${file.sha256}`,
        encode(file.source),
        ...(file.sourceSha256 === undefined ? [] : [`sha256:${file.sourceSha256}`]),
      ].join(' '),
    ),
    ...byPath(record.images).map((image) => `image ${image.reference} ${image.digest} ${encode(image.path)}`),
  ]
  return `${lines.join('\n')}\n`
}

/**
 * Reads versions.txt back.
 * @param where what the text came from, for the error
 * @throws Failure naming the line that cannot be read
 */
export function parseRecord(text: string, where: string): IsoRecord {
  const [heading, ...lines] = text.replace(/\n$/, '').split('\n')
  if (heading !== HEADING) {
    throw new Failure(
      `${where} is no versions.txt that this release reads: its first line is ${JSON.stringify((heading ?? '').slice(0, 80))}`,
      `The first line has to be ${JSON.stringify(HEADING)}: name the versions.txt of a build, or its ISO.`,
    )
  }
  let platform: string | undefined
  let cloudstack: string | undefined
  let epoch: number | undefined
  const versions: Partial<Record<VersionName, string>> = {}
  const files: RecordedFile[] = []
  const images: RecordedImage[] = []
  for (const [index, line] of lines.entries()) {
    const bad = (why: string): Failure =>
      new Failure(
        `${where}, line ${index + 2} (${JSON.stringify(line.slice(0, 200))}): ${why}`,
        'Take the versions.txt of a build as it is; docs/versions-txt.md tells its format.',
      )
    const [keyword, ...words] = line.split(' ')
    const [first, second, third, fourth, ...rest] = words.map(decode)
    if (rest.length > 0) throw bad('too many words')
    if (keyword === 'platform') {
      if (first === undefined || second !== undefined || platform !== undefined)
        throw bad('one platform is expected')
      platform = first
    } else if (keyword === 'cloudstack') {
      if (
        first === undefined ||
        !/^\d+\.\d+$/.test(first) ||
        second !== undefined ||
        cloudstack !== undefined
      ) {
        throw bad('one CloudStack release, MAJOR.MINOR, is expected')
      }
      cloudstack = first
    } else if (keyword === 'epoch') {
      if (first === undefined || !/^\d{1,12}$/.test(first) || second !== undefined || epoch !== undefined) {
        throw bad('one time in seconds is expected')
      }
      epoch = Number(first)
    } else if (keyword === 'version') {
      const name = VERSION_NAMES.find((known) => known === first)
      if (name === undefined || second === undefined || third !== undefined || versions[name] !== undefined) {
        throw bad('one known name and its version are expected')
      }
      versions[name] = second
    } else if (keyword === 'file') {
      const sha256 = hashOf(second)
      const sourceSha256 = hashOf(fourth)
      if (!first || sha256 === undefined || !third || (fourth !== undefined && sourceSha256 === undefined)) {
        throw bad('path, sha256, source and, for an edited file, the sha256 of its source are expected')
      }
      if (files.some(({ path }) => path === first)) throw bad(`${first} has a line already`)
      files.push({
        path: first,
        sha256,
        source: third,
        ...(sourceSha256 === undefined ? {} : { sourceSha256 }),
      })
    } else if (keyword === 'image') {
      if (
        !first ||
        tryReference(first) === undefined ||
        !second ||
        !DIGEST.test(second) ||
        !third ||
        fourth
      ) {
        throw bad('reference, digest and path are expected')
      }
      if (images.some(({ path }) => path === third)) throw bad(`${third} has a line already`)
      images.push({ reference: first, digest: second, path: third })
    } else {
      throw bad('a line starts with platform, cloudstack, epoch, version, file or image')
    }
  }
  if (platform === undefined || cloudstack === undefined || epoch === undefined) {
    const missing = platform === undefined ? 'platform' : cloudstack === undefined ? 'cloudstack' : 'epoch'
    throw new Failure(`${where} has no ${missing} line`, 'Take the versions.txt of a build as it is.')
  }
  return { platform, cloudstack, epoch, versions, files, images }
}

function hashOf(word: string | undefined): string | undefined {
  const hash = word?.startsWith('sha256:') ? word.slice('sha256:'.length) : undefined
  return hash !== undefined && SHA256.test(hash) ? hash : undefined
}

/** Blanks part words and line ends part lines, so within a word they are percent-encoded, as is `%` itself. */
function encode(word: string): string {
  return word.replace(/[%\s\p{Cc}]/gu, (character) => encodeURIComponent(character))
}

function decode(word: string): string {
  return word.replace(/(?:%[0-9A-F]{2})+/g, (escapes) => {
    try {
      return decodeURIComponent(escapes)
    } catch {
      return escapes
    }
  })
}
