import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { readFile, rename, rm, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { HttpClient, type HttpClientResponse } from '@actions/http-client'
import { HTTPError } from '@actions/tool-cache'
import { Cancelled, Failure, fileFailure, hasCode, reasonOf } from '../errors.ts'
import type { Log } from '../log.ts'
import type { PieceCache } from '../piece-cache.ts'
import { isUsableEpoch } from '../request/epoch.ts'
import { notAsLocked } from '../request/lock.ts'
import { type Mirror, mirroredUrl } from '../request/mirrors.ts'
import { together } from '../together.ts'
import { publishedSha256 } from './checksum.ts'
import { sha256OfFile } from './hash.ts'
import { PAUSES, PassingFault, parseRetryAfter, withRetries } from './retry.ts'

/** A URL to take a file from. */
export interface Candidate {
  readonly url: string
  /** URL of the checksum that the file's publisher gives for it. */
  readonly checksumUrl?: string
  /** SHA-256 that an earlier build recorded, 64 hexadecimal digits: no other bytes will do. */
  readonly lockedSha256?: string
}

/** Tried in order; only a 404 leads to the next. */
export type Candidates = readonly [Candidate, ...Candidate[]]

export interface DownloadRequest {
  /** What it is, for messages: `the CNI plugins`. */
  readonly what: string
  /** The input that decides the URL. */
  readonly input: string
  readonly candidates: Candidates
}

/** A file that arrived whole. */
export interface Downloaded {
  /** The local file. */
  readonly path: string
  /** The original URL, whatever mirror it came by. */
  readonly url: string
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string
  /** In bytes. */
  readonly size: number
  /** When the server says it was last changed, in seconds since 1970. */
  readonly lastModified?: number
}

/** What one answer brought. */
type Received = Pick<Downloaded, 'sha256' | 'size' | 'lastModified'>

/** The connection counts as dead after this long without a byte, in milliseconds. */
const SILENCE = 60_000

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

const MOST_REDIRECTS = 10

/** A checksum or version file that is longer than this is something else, in bytes. */
const LONGEST_TEXT = 1024 * 1024

/**
 * Downloads for one build. It stands on the HTTP client of @actions/tool-cache and its HTTPError. Its
 * downloadTool itself is not used: it pauses at random, cannot see Retry-After, does not end on cancel, leaves the hash
 * to a second reading, and its client fails at a redirect to a relative URL.
 */
export class Downloads {
  readonly #mirrors: readonly Mirror[]
  readonly #log: Log
  readonly #signal: AbortSignal
  readonly #pauses: readonly number[]
  readonly #http: HttpClient
  readonly #cache: PieceCache | undefined

  constructor(options: {
    readonly mirrors: readonly Mirror[]
    readonly log: Log
    readonly signal: AbortSignal
    /** Pauses between tries, in milliseconds. */
    readonly pauses?: readonly number[]
    /** In milliseconds without a byte. */
    readonly silence?: number
    /** Keeps files that have a published checksum from one run to the next. */
    readonly cache?: PieceCache
  }) {
    this.#mirrors = options.mirrors
    this.#log = options.log
    this.#signal = options.signal
    this.#pauses = options.pauses ?? PAUSES
    this.#cache = options.cache
    this.#http = new HttpClient('cks-iso', [], {
      allowRetries: false,
      allowRedirects: false,
      socketTimeout: options.silence ?? SILENCE,
    })
  }

  /**
   * Downloads one file to `path`, which must not exist. Redirects are followed, passing faults tried again, and a
   * published checksum must match.
   * @throws Failure naming the URL and the input; Cancelled
   */
  async file(request: DownloadRequest, path: string): Promise<Downloaded> {
    const [first, ...others] = request.candidates
    try {
      return await this.#candidate(request, first, path)
    } catch (thrown) {
      const [second, ...more] = others
      if (second === undefined || !(thrown instanceof Failure) || !isNotFound(thrown.cause)) throw thrown
      this.#log.info(`${first.url} is not there; trying ${second.url}`)
      return await this.file({ ...request, candidates: [second, ...more] }, path)
    }
  }

  /**
   * Downloads a short text, such as a version file.
   * @param scratch a file to download to; gone afterwards
   * @throws Failure naming the URL and the input; Cancelled
   */
  async text(request: DownloadRequest, scratch: string): Promise<{ text: string; url: string }> {
    const { path, url, size } = await this.file(request, scratch)
    try {
      if (size > LONGEST_TEXT) {
        throw new Failure(
          `${request.what}: ${url} answered with ${size} bytes where a short text is expected`,
          `Open that URL, and look at the input ${request.input}.`,
        )
      }
      return { text: await readFile(path, 'utf8'), url }
    } finally {
      await rm(path, { force: true })
    }
  }

  async #candidate(request: DownloadRequest, candidate: Candidate, path: string): Promise<Downloaded> {
    const part = `${path}.part`
    try {
      const { checksumUrl, lockedSha256 } = candidate
      const checksum =
        lockedSha256 !== undefined || checksumUrl === undefined
          ? Promise.resolve(lockedSha256)
          : this.#checksum(request, candidate.url, checksumUrl, path)
      const [downloaded, expected] = await together([
        this.#cachedBytes(request, candidate.url, part, checksum),
        checksum,
      ])
      if (expected !== undefined && expected !== downloaded.sha256) {
        const [found, what] = [`SHA-256 ${downloaded.sha256}`, `${request.what}: ${candidate.url}`]
        if (lockedSha256 !== undefined) throw notAsLocked(what, found, lockedSha256)
        throw new Failure(
          `${what} has ${found}, but ${checksumUrl} says ${expected}`,
          `Run again; if it stays, the file or its mirror was altered: choose another ${request.input} and tell its publisher.`,
        )
      }
      await rename(part, path).catch((thrown: unknown) => {
        throw fileFailure(`Cannot keep ${request.what}`, path, thrown)
      })
      return { path, url: candidate.url, ...downloaded }
    } catch (thrown) {
      await rm(part, { force: true })
      throw thrown
    }
  }

  /** As #bytes; by way of the cache, where there is one and a checksum to trust it by. */
  async #cachedBytes(
    request: DownloadRequest,
    url: string,
    part: string,
    checksum: Promise<string | undefined>,
  ): Promise<Received> {
    const cache = this.#cache
    // That it fails is told by the one who needs it.
    const sha256 = cache === undefined ? undefined : await checksum.catch(() => undefined)
    if (cache === undefined || sha256 === undefined) return await this.#bytes(request, url, part)
    const key = { kind: 'file', name: url, facts: [sha256] } as const
    const check = async (file: string): Promise<string | undefined> => {
      const found = await sha256OfFile(file, this.#signal)
      return found === sha256 ? undefined : `it has SHA-256 ${found}`
    }
    const restored = await cache.restore(key, part, check, this.#signal)
    if (restored !== undefined) {
      const changed = Number(restored.note)
      return { sha256, size: (await stat(part)).size, ...(changed > 0 ? { lastModified: changed } : {}) }
    }
    const received = await this.#bytes(request, url, part)
    if (received.sha256 === sha256) await cache.save(key, part, String(received.lastModified ?? ''))
    return received
  }

  async #checksum(
    request: DownloadRequest,
    fileUrl: string,
    checksumUrl: string,
    path: string,
  ): Promise<string> {
    const what = `the published checksum of ${request.what}`
    const { text } = await this.text({ ...request, what, candidates: [{ url: checksumUrl }] }, `${path}.sum`)
    return publishedSha256(text, checksumUrl, fileUrl)
  }

  async #bytes(request: DownloadRequest, url: string, part: string): Promise<Received> {
    const from = mirroredUrl(this.#mirrors, url)
    const named = from === url ? url : `${url} (by the mirror ${from})`
    try {
      return await withRetries(() => this.#attempt(from, part), {
        what: `${request.what}: ${named}`,
        signal: this.#signal,
        log: this.#log,
        pauses: this.#pauses,
      })
    } catch (thrown) {
      if (thrown instanceof Cancelled || thrown instanceof Failure) throw thrown
      const next = isNotFound(thrown)
        ? `Check the input ${request.input}: what it names is not published under that URL.`
        : `Run again; if it stays, open that URL from this machine, look at the input ${request.input}, or name a mirror in mirrors.`
      throw new Failure(`Cannot download ${request.what}: ${named}: ${reasonOf(thrown)}`, next, {
        cause: thrown,
      })
    }
  }

  /** @throws HTTPError for an answer that stays; PassingFault for one that may pass; Failure for a local fault */
  async #attempt(url: string, part: string): Promise<Received> {
    await rm(part, { force: true })
    const message = await this.#follow(url)
    const status = message.statusCode ?? 0
    if (status !== 200) {
      message.resume()
      const reason = `answered ${status} ${message.statusMessage ?? ''}`.trim()
      if (isPassing(status)) {
        throw new PassingFault(reason, parseRetryAfter(message.headers['retry-after'], Date.now()))
      }
      throw new StatusError(status, reason)
    }
    const hash = createHash('sha256')
    let size = 0
    try {
      await pipeline(
        message,
        async function* (chunks: AsyncIterable<Buffer>) {
          for await (const chunk of chunks) {
            hash.update(chunk)
            size += chunk.length
            yield chunk
          }
        },
        createWriteStream(part, { flags: 'wx' }),
        { signal: this.#signal },
      )
    } catch (thrown) {
      if (this.#signal.aborted) throw new Cancelled(`${url}: cancelled`)
      if (hasCode(thrown, 'ENOSPC') || hasCode(thrown, 'EACCES') || hasCode(thrown, 'ENOENT')) {
        throw fileFailure('Cannot write a download', part, thrown)
      }
      throw new PassingFault(`the connection broke after ${size} bytes (${reasonOf(thrown)})`, undefined, {
        cause: thrown,
      })
    }
    const announced = message.headers['content-encoding'] ? undefined : message.headers['content-length']
    if (announced !== undefined && Number(announced) !== size) {
      throw new PassingFault(`${size} bytes arrived where ${announced} were announced`)
    }
    const changed = Date.parse(message.headers['last-modified'] ?? '')
    return {
      sha256: hash.digest('hex'),
      size,
      ...(isUsableEpoch(Math.floor(changed / 1000)) ? { lastModified: Math.floor(changed / 1000) } : {}),
    }
  }

  async #follow(start: string): Promise<HttpClientResponse['message']> {
    let url = start
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const { message } = await this.#open(url)
      const { location } = message.headers
      const status = message.statusCode ?? 0
      if (!REDIRECTS.has(status) || location === undefined) return message
      message.resume()
      if (!URL.canParse(location, url))
        throw new StatusError(status, `was redirected to ${JSON.stringify(location)}, which is no URL`)
      const next = new URL(location, url)
      if (next.protocol !== 'https:' && next.protocol !== 'http:') {
        throw new StatusError(status, `was redirected to ${next.href}, which is not on the web`)
      }
      if (next.protocol !== 'https:' && url.startsWith('https:')) {
        throw new StatusError(
          310,
          `was redirected to ${next.origin} without TLS, where anyone could alter it`,
        )
      }
      url = next.href
    }
    throw new StatusError(302, `was redirected more than ${MOST_REDIRECTS} times`)
  }

  async #open(url: string): Promise<HttpClientResponse> {
    this.#signal.throwIfAborted()
    let onAbort = (): void => {}
    const cancelled = new Promise<never>((_, reject) => {
      onAbort = () => reject(new Cancelled(`${url}: cancelled`))
      this.#signal.addEventListener('abort', onAbort, { once: true })
    })
    try {
      return await Promise.race([this.#http.get(url), cancelled])
    } catch (thrown) {
      if (thrown instanceof Cancelled) throw thrown
      throw new PassingFault(reasonOf(thrown), undefined, { cause: thrown })
    } finally {
      this.#signal.removeEventListener('abort', onAbort)
    }
  }
}

/** tool-cache's error for a status, with the reason in words. */
class StatusError extends HTTPError {
  constructor(status: number, message: string) {
    super(status)
    this.message = message
  }
}

/** True for what a 404 was thrown as. */
export function isNotFound(thrown: unknown): boolean {
  return thrown instanceof HTTPError && thrown.httpStatusCode === 404
}

/** Timeouts, rate limits and server errors may pass; other answers stay. */
function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}
