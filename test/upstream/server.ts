import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** A request that reached the server. */
export interface UpstreamRequest {
  readonly method: string
  /** The URL that it stands for, such as `https://dl.k8s.io/release/stable.txt`, without a query. */
  readonly url: string
  /** Status of the answer; 0 while there is none. */
  readonly status: number
  /** Bytes of the answer's body. */
  readonly bytes: number
}

/** A whole answer. */
export interface Answer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What goes wrong with a request. */
export type UpstreamFault =
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string
    }
  /** The connection breaks after that many bytes of a body that was announced whole. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** Silence after that many bytes of the body; without a number there is never an answer. */
  | { readonly kind: 'stall'; readonly bytes?: number }
  | { readonly kind: 'slow'; readonly bytesPerSecond: number }

/** Says how a URL is answered. The fault is about the answer's body. */
export type Responder = (url: string) => Promise<{ answer: Answer; fault?: UpstreamFault | undefined }>

export interface OriginServer {
  /** `http://127.0.0.1:PORT`; below it stands a path for each origin, such as `/dl.k8s.io`. */
  readonly base: string
  readonly requests: UpstreamRequest[]
  close(): void
}

/** Published files are as old as this, so that what is built from them is the same every day. */
const LAST_MODIFIED = 'Tue, 09 Dec 2025 12:00:00 GMT'

/** Starts a server in which the first part of a path is the host of the https URL that is meant. */
export async function startServer(respond: Responder): Promise<OriginServer> {
  const requests: UpstreamRequest[] = []
  const server = createServer((incoming, outgoing) => {
    const log = { method: incoming.method ?? '', url: originalUrl(incoming), status: 0, bytes: 0 }
    requests.push(log)
    respond(log.url)
      .then(({ answer, fault }) => send(outgoing, answer, fault, log))
      .catch((thrown: unknown) => {
        // A mistake in a test or in the upstream itself: the client's error message shall say so.
        if (outgoing.headersSent) outgoing.destroy()
        else outgoing.writeHead(500).end(`the test upstream failed: ${thrown}`)
      })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return {
    base: `http://127.0.0.1:${address.port}`,
    requests,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** git asks for a repository by either of its names, `…/plugins` and `…/plugins.git`. */
function originalUrl({ url = '' }: IncomingMessage): string {
  const path = url.replace(/\?.*$/, '').replace(/\.git\/(info\/refs|HEAD)$/, '/$1')
  return `https:/${path}`
}

async function send(
  outgoing: ServerResponse,
  { status = 200, headers, body }: Answer,
  fault: UpstreamFault | undefined,
  log: { method: string; status: number; bytes: number },
): Promise<void> {
  if (fault?.kind === 'stall' && fault.bytes === undefined) return
  log.status = status
  outgoing.writeHead(status, {
    'content-length': body.length,
    'content-type': 'application/octet-stream',
    'last-modified': LAST_MODIFIED,
    ...headers,
  })
  if (log.method === 'HEAD') {
    outgoing.end()
    return
  }
  const part = body.subarray(0, fault?.kind === 'cut' || fault?.kind === 'stall' ? fault.bytes : undefined)
  log.bytes = part.length
  if (fault?.kind === 'slow') await sendSlowly(outgoing, part, fault.bytesPerSecond)
  else if (fault?.kind === 'cut') outgoing.write(part, () => outgoing.destroy())
  else if (fault?.kind === 'stall') outgoing.write(part)
  else outgoing.end(part)
}

/** In milliseconds. */
const TICK = 20

async function sendSlowly(outgoing: ServerResponse, body: Buffer, bytesPerSecond: number): Promise<void> {
  const step = Math.max(1, Math.round((bytesPerSecond * TICK) / 1000))
  for (let offset = 0; offset < body.length && !outgoing.destroyed; offset += step) {
    outgoing.write(body.subarray(offset, offset + step))
    await sleep(TICK)
  }
  outgoing.end()
}
