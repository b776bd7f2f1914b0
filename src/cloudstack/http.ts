import type { IncomingMessage } from 'node:http'
import { HttpClient } from '@actions/http-client'
import { Cancelled, reasonOf } from '../errors.ts'

/** What a TLS connection trusts and shows, PEM each. Absent: the CAs of Node, and no client certificate. */
export interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

export interface Exchange {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly tls?: TlsMaterial
  /** For the whole exchange, in milliseconds. */
  readonly timeout: number
  readonly signal: AbortSignal
}

/** An answer that arrived whole, whatever its status. Redirects are not followed: a body is for one host. */
export interface Answer {
  readonly status: number
  readonly text: string
  readonly location: string | undefined
  readonly retryAfter: string | undefined
}

/**
 * Why there is no answer. `unreachable`: no connection came about, so nothing was asked. `tls`: the TLS handshake
 * failed, mostly over a certificate, so nothing was asked, and trying again changes nothing. `broken`: the connection ended or
 * the time was up after the request may have arrived, so it may have been carried out.
 */
export type FaultKind = 'unreachable' | 'tls' | 'broken'

/** A request that got no answer. */
export class ConnectionFault extends Error {
  override readonly name = 'ConnectionFault'
  readonly kind: FaultKind

  constructor(kind: FaultKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

/** No answer of either API comes near this, in bytes. */
const LONGEST_ANSWER = 64 * 1024 * 1024

/**
 * One request, sent once, on a connection of its own. Proxies are honoured as @actions/http-client does
 * (https_proxy, http_proxy, no_proxy).
 * @throws ConnectionFault when there is no whole answer; Cancelled
 */
export async function exchange(request: Exchange): Promise<Answer> {
  if (request.signal.aborted) throw new Cancelled('cancelled')
  const late = AbortSignal.timeout(request.timeout)
  const ends = AbortSignal.any([request.signal, late])
  // keepAlive makes the client keep the agent that getAgent has made, and with it the TLS material: request options
  // of their own do not reach the TLS connection through a proxy (tunnel takes only its agent's).
  const client = new HttpClient('cks-iso', [abortable(ends)], {
    allowRedirects: false,
    allowRetries: false,
    keepAlive: true,
    socketTimeout: request.timeout,
  })
  try {
    // Both kinds of agent have `options`; the types of Node know it of one of them only.
    Object.assign(Reflect.get(client.getAgent(request.url), 'options'), request.tls)
    const headers = { connection: 'close', ...request.headers }
    const { message } = await client.request(request.method, request.url, request.body ?? '', headers)
    return {
      status: message.statusCode ?? 0,
      text: await wholeText(message),
      location: message.headers.location,
      retryAfter: message.headers['retry-after'],
    }
  } catch (thrown) {
    if (request.signal.aborted) throw new Cancelled('cancelled')
    if (late.aborted) {
      throw new ConnectionFault('broken', `no answer within ${Math.round(request.timeout / 1000)} s`)
    }
    throw new ConnectionFault(kindOf(thrown), reasonOf(thrown), { cause: thrown })
  } finally {
    client.dispose()
  }
}

type Handler = HttpClient['handlers'][number]

/** http-client has no way to end a request, but hands its options to handlers, and Node takes a signal there. */
function abortable(signal: AbortSignal): Handler {
  return {
    prepareRequest: (options) => {
      options.signal = signal
    },
    canHandleAuthentication: () => false,
    handleAuthentication: () => Promise.reject(new Error('no authentication to handle')),
  }
}

/** http-client's own readBody never settles when a connection breaks inside the body. */
async function wholeText(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    if (size > LONGEST_ANSWER) throw new Error(`the answer is longer than ${LONGEST_ANSWER} bytes`)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const NEVER_CONNECTED = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]

/** https://nodejs.org/api/tls.html, X509 certificate error codes, and the two of Node itself. */
const FAILED_HANDSHAKE =
  /^(CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|HOSTNAME_MISMATCH|ERR_TLS_CERT_|ERR_SSL_)/

function kindOf(thrown: unknown): FaultKind {
  const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : ''
  const syscall = thrown instanceof Error && 'syscall' in thrown ? String(thrown.syscall) : ''
  if (FAILED_HANDSHAKE.test(code)) return 'tls'
  // tunnel's words for a proxy that does not answer or says no: nothing has reached the server.
  if (reasonOf(thrown).startsWith('tunneling socket could not be established')) return 'unreachable'
  if (NEVER_CONNECTED.includes(code) || syscall === 'connect') return 'unreachable'
  return 'broken'
}
