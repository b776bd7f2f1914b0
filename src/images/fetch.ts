import { createHash } from 'node:crypto'
import { Failure } from '../errors.ts'
import type { ProgramOutput } from '../exec.ts'
import { PassingFault, parseRetryAfter, withRetries } from '../fetch/retry.ts'
import type { Log } from '../log.ts'
import type { Containerd } from './containerd.ts'
import type { Target } from './oci.ts'
import { tryReference } from './reference.ts'

/** What the requests for one image share. */
export interface FetchContext {
  readonly containerd: Containerd
  readonly log: Log
  readonly signal: AbortSignal
  /** Before the second, third and fourth try, in milliseconds. */
  readonly pauses: readonly number[]
}

/** An image to ask a registry for. */
export interface FetchedImage {
  /** What is asked of the registry: `repository:tag` or `repository@digest`. */
  readonly fetch: string
  /** Who asks for it, for messages. */
  readonly sources: readonly string[]
}

/** One image, of any size on any line, in milliseconds. */
const FETCH_TIMEOUT = 30 * 60_000

/** One small request, in milliseconds. */
const REQUEST_TIMEOUT = 120_000

/**
 * Fetches an image into containerd, for one platform only, and without unpacking it.
 * @returns what the reference points at
 * @throws Failure when the registry does not have the image, refuses it, or keeps failing; Cancelled
 */
export async function fetchImage(
  image: FetchedImage,
  platform: string,
  context: FetchContext,
): Promise<Target> {
  const { containerd } = context
  const flags = ['--platform', platform, ...containerd.fetchFlags, '--hosts-dir', containerd.hostsDir]
  await ctrWithRetries(image, ['content', 'fetch', ...flags, image.fetch], FETCH_TIMEOUT, context)

  const listed = await containerd.ctr(['images', 'ls', `name==${JSON.stringify(image.fetch)}`], {
    what: `Cannot look up the image ${image.fetch}`,
    next: 'Run again; if it stays, look at the reason above.',
    timeout: REQUEST_TIMEOUT,
  })
  const target = readTarget(listed.stdout, image.fetch)
  if (target === undefined) {
    throw new Failure(
      `containerd does not know the image ${image.fetch} that it fetched: ${listed.stdout}${ctrError(listed)}`,
      'Run again; if it stays, try another release of containerd.',
    )
  }
  return target
}

/**
 * Asks the registry for one manifest or index, whatever its platform.
 * @param digest of the object; undefined for what the reference points at
 * @throws as {@link fetchImage}; Failure when other bytes arrive than the digest stands for
 */
export async function fetchManifest(
  image: FetchedImage,
  digest: string | undefined,
  context: FetchContext,
): Promise<Buffer> {
  const reference = digest === undefined ? image.fetch : `${repositoryPart(image.fetch)}@${digest}`
  const flags = ['--hosts-dir', context.containerd.hostsDir]
  const args = ['content', 'fetch-object', ...flags, reference, reference]
  const { stdout } = await ctrWithRetries({ ...image, fetch: reference }, args, REQUEST_TIMEOUT, context)
  const bytes = Buffer.from(stdout)
  const arrived = digestOf(bytes)
  if (digest !== undefined && arrived !== digest) {
    throw new Failure(
      `The registry answered with ${arrived} where ${reference} was asked for`,
      'Run again; if it stays, the registry or its mirror is broken: name another one in mirrors.',
    )
  }
  return bytes
}

/**
 * The digest that a reference points at now, by two small requests and without its layers.
 * @throws as {@link fetchImage}
 */
export async function resolveDigest(image: FetchedImage, context: FetchContext): Promise<string> {
  return digestOf(await fetchManifest(image, undefined, context))
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

async function ctrWithRetries(
  image: FetchedImage,
  args: readonly string[],
  timeout: number,
  context: FetchContext,
): Promise<ProgramOutput> {
  const { containerd, log, signal, pauses } = context
  const named = `${image.fetch}${mirrorOf(image, containerd)}`
  const attempt = async (): Promise<ProgramOutput> => {
    const output = await containerd.ctr(args, {
      what: `Cannot fetch the image ${named}`,
      next: 'Run again; if it stays, look at the network, or name a nearer registry in mirrors.',
      timeout,
    })
    if (output.exitCode === 0) return output
    const error = ctrError(output)
    if (isPassing(error)) throw new PassingFault(error, retryAfterOf(output))
    throw permanentFailure(image, named, output)
  }
  try {
    return await withRetries(attempt, { what: `Image ${image.fetch}`, signal, log, pauses })
  } catch (thrown) {
    if (!(thrown instanceof PassingFault)) throw thrown
    const next = /\b429\b/.test(thrown.message)
      ? 'The registry limits how much may be fetched from this address: try later, or name a mirror or proxy cache of that registry in mirrors.'
      : 'Run again; if it stays, look at the network and the registry, or name a mirror in mirrors.'
    throw new Failure(`Cannot fetch the image ${named}${askedBy(image)}: ${thrown.message}`, next, {
      cause: thrown,
    })
  }
}

function permanentFailure(image: FetchedImage, named: string, output: ProgramOutput): Failure {
  const error = ctrError(output)
  const asked = `${named}${askedBy(image)}`
  if (isSchema1(output)) {
    return new Failure(
      `The image ${asked} is kept in the old schema 1 format, which containerd no longer reads: ${error}`,
      'Choose a newer tag of it, or have it pushed again by a current tool.',
    )
  }
  if (error.endsWith(`${image.fetch}: not found`)) {
    return new Failure(
      `The registry does not have the image ${asked}: ${error}`,
      'Choose a version of its source that names an image which exists, or correct the reference there.',
    )
  }
  if (error.includes('no space left on device')) {
    return new Failure(
      `Cannot fetch the image ${asked}: ${error}`,
      'Free space on that disk, or point TMPDIR (on a runner RUNNER_TEMP) at a larger one.',
    )
  }
  return new Failure(
    `Cannot fetch the image ${asked}: ${error}`,
    'Check the reference, and that its registry (or the mirror named in mirrors) serves it to this machine.',
  )
}

/** containerd 2.1 and later says so; earlier ones stumble over the format, after the response that names it. */
function isSchema1({ stderr }: ProgramOutput): boolean {
  return /(media type|response\.header\.content-type=)[\\" ]*[\w./]*manifest\.v1\+/.test(stderr)
}

/** Who asks for an image, in brackets, for messages. */
export function askedBy({ sources }: Pick<FetchedImage, 'sources'>): string {
  return ` (asked for by ${sources.join(', ')})`
}

function mirrorOf(image: FetchedImage, { mirrors }: Containerd): string {
  const domain = tryReference(image.fetch)?.domain
  const mirror = mirrors.find(({ host }) => host === domain)
  return mirror === undefined ? '' : ` by the mirror ${mirror.base}`
}

function repositoryPart(reference: string): string {
  return reference.replace(/@.*$/, '').replace(/:[^:/]*$/, '')
}

/**
 * A fault that may be gone a moment later, told by the texts of containerd's resolver and of Go's network and TLS
 * packages: statuses 408, 425, 429 and 5xx, connections that break, names that cannot be resolved just now.
 */
export function isPassing(error: string): boolean {
  return (
    /: (408|425|429|5\d\d) [A-Z]/.test(error) ||
    /\bEOF\b|connection reset|connection refused|broken pipe|timeout|deadline exceeded/.test(error) ||
    /server misbehaving|temporary failure in name resolution|network is unreachable|no route to host/i.test(
      error,
    ) ||
    /stream error|GOAWAY|failed size validation|unexpected commit (size|digest)|use of closed network/.test(
      error,
    )
  )
}

/** The last thing that ctr says is its error; above it stand the debug lines. */
export function ctrError({ stdout, stderr }: ProgramOutput): string {
  const lines = `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim() !== '')
  const error = lines.findLast((line) => line.startsWith('ctr: ')) ?? lines.at(-1) ?? 'no output'
  return error.replace(/^ctr: /, '').trim()
}

/** What the registry last asked to wait, from the response that ctr's debug lines show. In milliseconds. */
function retryAfterOf({ stderr }: ProgramOutput): number | undefined {
  const [, quoted, bare] =
    [...stderr.matchAll(/response\.header\.retry-after=(?:"([^"]*)"|(\S+))/g)].at(-1) ?? []
  return parseRetryAfter(quoted ?? bare, Date.now())
}

/** Reads the row of one image in the table of `ctr images ls`: reference, media type, digest and more. */
function readTarget(table: string, reference: string): Target | undefined {
  for (const line of table.split('\n')) {
    const [name, mediaType, digest] = line.split(/\s+/)
    if (name === reference && mediaType !== undefined && digest !== undefined) {
      return { mediaType, digest }
    }
  }
  return undefined
}
