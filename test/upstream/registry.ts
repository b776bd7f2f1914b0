import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import pMap from 'p-map'
import { parseReference, repositoryOf } from '../../src/images/reference.ts'
import { type Blob, type BuiltImage, buildImage, type ImageSpec } from './images.ts'

/** A request that reached the registry over the network. */
export interface RegistryRequest {
  readonly method: string
  /** Repository with its registry, such as `registry.k8s.io/pause`; empty for other requests. */
  readonly repository: string
  readonly kind: 'manifest' | 'blob' | 'other'
  /** Tag or digest. */
  readonly reference: string
}

/** What goes wrong with a request. */
export type RegistryFault =
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string
    }
  /** The connection breaks after that many bytes of the body. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** There is never an answer. */
  | { readonly kind: 'stall' }

/** Decides for each request; undefined serves it. */
export type FaultHook = (request: RegistryRequest) => RegistryFault | undefined

export interface PushedImage {
  /** The digest that the name points at. */
  readonly digest: string
  /** Digests of the manifests by platform. */
  readonly manifests: ReadonlyMap<string, string>
}

/** A real registry on loopback that holds the images of all registries, each under its own host's name. */
export interface Registry {
  /** `127.0.0.1:PORT`. */
  readonly host: string
  /** What was asked for over the network so far. Pushes are not in it. */
  readonly requests: readonly RegistryRequest[]
  /** Lines of the input `mirrors` that lead the given registries here. */
  mirrors(...hosts: readonly string[]): string
  /** Makes an image and pushes it: `push('registry.k8s.io/pause:3.10')`. A name with a digest too is pushed by its tag. */
  push(reference: string, spec?: ImageSpec): Promise<PushedImage>
  /** Forgets what was asked for so far. */
  clearRequests(): void
  /** Every later request goes through this hook. */
  setFaults(hook: FaultHook): void
  close(): Promise<void>
}

/** Starts Debian's docker-registry with an empty store, behind a proxy that records requests and makes faults. */
export async function startRegistry(): Promise<Registry> {
  const dir = await mkdtemp(join(tmpdir(), 'registry-'))
  await writeFile(
    join(dir, 'config.yml'),
    JSON.stringify({
      version: '0.1',
      log: { level: 'error', accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: join(dir, 'store') }, delete: { enabled: true } },
      http: { net: 'unix', addr: 'registry.sock', relativeurls: true, secret: 'loopback' },
    }),
  )
  const child = spawn('docker-registry', ['serve', 'config.yml'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const stop = (): void => void child.kill('SIGKILL')
  process.once('exit', stop)
  const backend = new Backend(child)
  try {
    await backend.ready()
  } catch (thrown) {
    stop()
    await rm(dir, { recursive: true, force: true })
    throw thrown
  }

  const requests: RegistryRequest[] = []
  let faults: FaultHook = () => undefined
  const server = createServer((incoming, outgoing) => {
    const asked = readRequest(incoming)
    requests.push(asked)
    backend.forward(incoming, outgoing, faults(asked))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  const host = `127.0.0.1:${address.port}`

  return {
    host,
    requests,
    mirrors: (...hosts) => hosts.map((from) => `${from} http://${host}/v2/${from}`).join('\n'),
    push: async (reference, spec) => {
      const { tag, ...rest } = parseReference(reference, 'a test')
      if (tag === undefined) throw new Error(`${reference}: an image is pushed by its tag`)
      const image = await buildImage(reference, spec)
      await backend.push(repositoryOf(rest), tag, image)
      return {
        digest: image.top.digest,
        manifests: new Map([...image.manifests].map(([platform, { digest }]) => [platform, digest])),
      }
    },
    clearRequests: () => {
      requests.length = 0
    },
    setFaults: (hook) => {
      faults = hook
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      backend.close()
      process.off('exit', stop)
      if (child.exitCode === null) {
        child.kill()
        await once(child, 'exit')
      }
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** The registry program itself, reached by its socket. */
class Backend {
  readonly #child: ChildProcess
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 })
  /** By the program's own working directory, since the path of a socket may have 107 bytes at most. */
  readonly #socket: string
  #errors = ''
  readonly #stored = new Set<string>()

  constructor(child: ChildProcess) {
    this.#child = child
    this.#socket = `/proc/${child.pid}/cwd/registry.sock`
    child.stderr?.on('data', (data: Buffer) => {
      this.#errors = `${this.#errors}${data}`.slice(-4000)
    })
  }

  async ready(): Promise<void> {
    const failed = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`docker-registry ended with ${code}: ${this.#errors}`)
    })
    failed.catch(() => {})
    for (let tries = 0; tries < 500; tries++) {
      const status = await Promise.race([failed, this.#send('GET', '/v2/').catch(() => undefined)])
      if (status?.status === 200) return
      await sleep(10)
    }
    throw new Error(`docker-registry does not answer: ${this.#errors}`)
  }

  close(): void {
    this.#agent.destroy()
  }

  forward(incoming: IncomingMessage, outgoing: ServerResponse, fault: RegistryFault | undefined): void {
    if (fault?.kind === 'stall') return
    if (fault?.kind === 'answer') {
      incoming.resume()
      outgoing.writeHead(fault.status, fault.headers).end(fault.body)
      return
    }
    const onward = request({
      socketPath: this.#socket,
      agent: this.#agent,
      method: incoming.method,
      path: incoming.url,
      headers: incoming.headers,
    })
    onward.on('error', () => outgoing.destroy())
    onward.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      if (fault === undefined) {
        answer.pipe(outgoing)
        return
      }
      let left = fault.bytes
      answer.on('data', (data: Buffer) => {
        outgoing.write(data.subarray(0, left), () => {
          if (left <= 0) outgoing.destroy()
        })
        left -= data.length
      })
      answer.on('end', () => outgoing.destroy())
    })
    incoming.pipe(onward)
  }

  async push(repository: string, tag: string, image: BuiltImage): Promise<void> {
    await pMap(image.blobs, (blob) => this.#pushBlob(repository, blob), { concurrency: 4 })
    for (const manifest of image.allManifests) await this.#pushManifest(repository, manifest.digest, manifest)
    await this.#pushManifest(repository, tag, image.top)
  }

  async #pushBlob(repository: string, { digest, data }: Blob): Promise<void> {
    const key = `${repository} ${digest}`
    if (this.#stored.has(key)) return
    const start = await this.#expect(202, 'POST', `/v2/${repository}/blobs/uploads/`)
    const upload = new URL(start.headers.location ?? '', 'http://registry')
    upload.searchParams.set('digest', digest)
    await this.#expect(201, 'PUT', `${upload.pathname}${upload.search}`, data, 'application/octet-stream')
    this.#stored.add(key)
  }

  async #pushManifest(repository: string, reference: string, { data, mediaType }: Blob): Promise<void> {
    await this.#expect(201, 'PUT', `/v2/${repository}/manifests/${reference}`, data, mediaType)
  }

  async #expect(status: number, method: string, path: string, body?: Buffer, type?: string) {
    const answer = await this.#send(method, path, body, type)
    if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`)
    return answer
  }

  async #send(method: string, path: string, body: Buffer = Buffer.alloc(0), type?: string) {
    const sent = request({
      socketPath: this.#socket,
      agent: this.#agent,
      method,
      path,
      headers: { 'content-length': body.length, ...(type === undefined ? {} : { 'content-type': type }) },
    })
    sent.end(body)
    const [answer]: IncomingMessage[] = await once(sent, 'response')
    if (answer === undefined) throw new Error(`${method} ${path}: no answer`)
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
  }
}

function readRequest(incoming: IncomingMessage): RegistryRequest {
  const method = incoming.method ?? ''
  const parts = /^\/v2\/(.+)\/(manifests|blobs)\/([^/?]+)/.exec(incoming.url ?? '')
  if (parts === null) return { method, repository: '', kind: 'other', reference: incoming.url ?? '' }
  const [, repository = '', kind, reference = ''] = parts
  return { method, repository, kind: kind === 'manifests' ? 'manifest' : 'blob', reference }
}
