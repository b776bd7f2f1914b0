import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { startBlobStore } from './azurite.ts'

/** What goes wrong with a call. */
export type ResultsFault =
  | { readonly kind: 'answer'; readonly status: number; readonly body: unknown }
  /** There is never an answer. */
  | { readonly kind: 'stall' }

/** Decides for each call by its method, such as `CreateArtifact`; undefined serves it. */
export type ResultsHook = (method: string) => ResultsFault | undefined

/** An entry or artifact that is whole. */
export interface Stored {
  readonly name: string
  /** In bytes, as the client says. */
  readonly size: number
  /** The checksum that the client gives for an artifact: `sha256:…`. */
  readonly hash?: string
}

/** GitHub's results service for one workflow run, as its runners see it: artifacts and cache (version 2). */
export interface ResultsService {
  /** The variables that a runner sets for an action that is to use this service. */
  readonly env: Readonly<Record<string, string>>
  /** Methods called so far. */
  readonly calls: readonly string[]
  readonly artifacts: readonly Stored[]
  readonly entries: readonly Stored[]
  /** The bytes of a finished artifact. */
  artifact(name: string): Promise<Buffer>
  /** Changes the stored bytes of a cache entry. */
  alterEntry(key: string, alter: (bytes: Buffer) => Buffer): Promise<void>
  /** Every later call goes through this hook. */
  setFaults(hook: ResultsHook): void
  /** Forgets which methods were called so far. */
  clearCalls(): void
  /** Forgets artifacts and entries, as for the run of another repository. */
  clear(): void
  close(): Promise<void>
}

interface Slot {
  readonly blob: string
  readonly id: number
  stored?: Stored
}

type Message = Readonly<Record<string, unknown>>

/** An answer of Twirp other than success: https://twitchtv.github.io/twirp/docs/errors.html */
class TwirpError extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Starts the service on loopback, with Azurite for the bytes. */
export async function startResultsService(): Promise<ResultsService> {
  const blobs = await startBlobStore()
  const artifacts = new Map<string, Slot>()
  const entries = new Map<string, Slot>()
  const calls: string[] = []
  let faults: ResultsHook = () => undefined
  let count = 0

  const reserve = async (slots: Map<string, Slot>, name: string, conflict: string): Promise<string> => {
    if (slots.has(name)) throw new TwirpError(409, 'already_exists', conflict)
    const id = ++count
    slots.set(name, { id, blob: `blob-${id}` })
    return await blobs.signedUrl(`blob-${id}`, 'write')
  }
  const finish = (slots: Map<string, Slot>, name: string, stored: Stored): number => {
    const slot = slots.get(name)
    if (slot === undefined) throw new TwirpError(404, 'not_found', `${name} is not reserved`)
    slot.stored = stored
    return slot.id
  }

  const methods: Readonly<Record<string, (message: Message) => Promise<unknown>>> = {
    CreateArtifact: async (message) => ({
      ok: true,
      signed_upload_url: await reserve(
        artifacts,
        text(message.name),
        'an artifact with this name already exists on the workflow run',
      ),
    }),
    FinalizeArtifact: async (message) => {
      const name = text(message.name)
      const hash = text(message.hash)
      const id = finish(artifacts, name, { name, size: Number(message.size), hash })
      return { ok: true, artifact_id: String(id) }
    },
    ListArtifacts: async (message) => ({
      artifacts: [...artifacts.values()].flatMap(({ id, stored }) =>
        stored === undefined ||
        String(message.id_filter ?? id) !== String(id) ||
        (message.name_filter ?? stored.name) !== stored.name
          ? []
          : [
              {
                workflow_run_backend_id: text(message.workflow_run_backend_id),
                workflow_job_run_backend_id: text(message.workflow_job_run_backend_id),
                database_id: String(id),
                name: stored.name,
                size: String(stored.size),
                digest: stored.hash,
              },
            ],
      ),
    }),
    GetSignedArtifactURL: async (message) => {
      const name = text(message.name)
      const slot = artifacts.get(name)
      if (slot?.stored === undefined) throw new TwirpError(404, 'not_found', `there is no artifact ${name}`)
      return { signed_url: await blobs.signedUrl(slot.blob, 'read', name) }
    },
    CreateCacheEntry: async (message) => ({
      ok: true,
      signed_upload_url: await reserve(
        entries,
        slotOf(message),
        'cache entry with the same key, version, and scope already exists',
      ),
    }),
    FinalizeCacheEntryUpload: async (message) => {
      const stored = { name: text(message.key), size: Number(message.size_bytes) }
      return { ok: true, entry_id: String(finish(entries, slotOf(message), stored)) }
    },
    GetCacheEntryDownloadURL: async (message) => {
      const slot = entries.get(slotOf(message))
      if (slot?.stored === undefined) return { ok: false }
      const url = await blobs.signedUrl(slot.blob, 'read')
      return { ok: true, signed_download_url: url, matched_key: slot.stored.name }
    },
  }

  const server = createServer((request, response) => {
    const method = request.url?.split('/').at(-1) ?? ''
    calls.push(method)
    const fault = faults(method)
    if (fault?.kind === 'stall') return
    if (fault?.kind === 'answer') return send(response, fault.status, fault.body)
    answer(methods[method], request).then(
      (body) => send(response, 200, body),
      (thrown: unknown) => {
        const { status, code, message } =
          thrown instanceof TwirpError ? thrown : new TwirpError(500, 'internal', String(thrown))
        send(response, status, { code, msg: message })
      },
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    env: {
      ACTIONS_RESULTS_URL: `http://127.0.0.1:${portOf(server)}/`,
      ACTIONS_RUNTIME_TOKEN: runtimeToken(),
      ACTIONS_CACHE_SERVICE_V2: 'true',
    },
    calls,
    get artifacts() {
      return storedOf(artifacts)
    },
    get entries() {
      return storedOf(entries)
    },
    artifact: async (name) => await blobs.read(artifacts.get(name)?.blob ?? name),
    alterEntry: async (key, alter) => {
      const slot = [...entries.values()].find(({ stored }) => stored?.name === key)
      if (slot === undefined) throw new Error(`there is no cache entry ${key}`)
      await blobs.write(slot.blob, alter(await blobs.read(slot.blob)))
    },
    setFaults: (hook) => {
      faults = hook
    },
    clear: () => {
      artifacts.clear()
      entries.clear()
    },
    clearCalls: () => {
      calls.length = 0
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await blobs.close()
    },
  }
}

async function answer(
  method: ((message: Message) => Promise<unknown>) | undefined,
  request: IncomingMessage,
): Promise<unknown> {
  if (method === undefined || !request.url?.startsWith('/twirp/github.actions.results.api.v1.')) {
    throw new TwirpError(404, 'bad_route', `no handler for ${request.url}`)
  }
  if (request.headers.authorization === undefined) {
    throw new TwirpError(401, 'unauthenticated', 'a token is needed')
  }
  const message: unknown = await json(request)
  return await method(typeof message === 'object' && message !== null ? { ...message } : {})
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Entries with one key and different versions (paths, compression) are different entries. */
function slotOf(message: Message): string {
  return `${text(message.key)} ${text(message.version)}`
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function storedOf(slots: ReadonlyMap<string, Slot>): readonly Stored[] {
  return [...slots.values()].flatMap(({ stored }) => (stored === undefined ? [] : [stored]))
}

function portOf(server: Server): number {
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** The claims that clients read out of a runner's token; nobody checks its signature here. */
function runtimeToken(): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return [part({ alg: 'none' }), part({ scp: 'Actions.Results:run-backend-id:job-backend-id' }), 'x'].join(
    '.',
  )
}
