import { parse } from 'yaml'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import { PassingFault, withRetries } from '../fetch/retry.ts'
import type { Log } from '../log.ts'
import { type Answer, ConnectionFault, exchange, type TlsMaterial } from './http.ts'
import { type Fields, isFields, textOf } from './model.ts'
import { Progress, pause, type Timing } from './timing.ts'
import { minutes, oneLine } from './words.ts'

/** How a kubeconfig says the API server is reached. */
export interface KubernetesAccess {
  readonly server: string
  readonly tls: TlsMaterial
  readonly token: string | undefined
}

/**
 * Reads the current context of a kubeconfig with its certificates inside, as getKubernetesClusterConfig gives out
 * (kubeadm's admin.conf with the public address). Programs that a kubeconfig names are not run.
 * @throws Failure that quotes nothing of it: the text is a secret
 */
export function parseKubeconfig(text: string, where: string): KubernetesAccess {
  const bad = (why: string) =>
    new Failure(`${where}: ${why}`, 'Use redeploy: scale, which needs no access to the cluster.')
  let config: unknown
  try {
    config = parse(text)
  } catch {
    throw bad('is no YAML')
  }
  if (!isFields(config)) throw bad('is no kubeconfig')
  const context = named(config.contexts, textOf(config, 'current-context'), 'context')
  const cluster = named(config.clusters, textOf(context, 'cluster'), 'cluster')
  const user = named(config.users, textOf(context, 'user'), 'user')
  const server = textOf(cluster, 'server')
  if (!URL.canParse(server)) throw bad('names no API server for its current context')
  const ca = decoded(cluster, 'certificate-authority-data')
  const cert = decoded(user, 'client-certificate-data')
  const key = decoded(user, 'client-key-data')
  const token = textOf(user, 'token') || undefined
  if ((cert === undefined || key === undefined) && token === undefined) {
    throw bad('holds neither a client certificate with its key nor a token')
  }
  return {
    server: server.replace(/\/+$/, ''),
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    },
    token,
  }
}

function named(list: unknown, name: string, part: string): Fields {
  const found = (Array.isArray(list) ? list : [])
    .filter(isFields)
    .find((each) => textOf(each, 'name') === name)
  const inside = found?.[part]
  return isFields(inside) ? inside : {}
}

function decoded(fields: Fields, name: string): string | undefined {
  const text = textOf(fields, name)
  return text === '' ? undefined : Buffer.from(text, 'base64').toString('utf8')
}

/** The owner of the fields that we apply (https://kubernetes.io/docs/reference/using-api/server-side-apply/). */
const FIELD_MANAGER = 'cks-iso'

/** The few calls to a Kubernetes API server that a redeploy needs. All of them may be repeated. */
export class Kubernetes {
  readonly #access: KubernetesAccess
  readonly #options: { readonly log: Log; readonly signal: AbortSignal; readonly timing: Timing }

  constructor(
    access: KubernetesAccess,
    options: { readonly log: Log; readonly signal: AbortSignal; readonly timing: Timing },
  ) {
    this.#access = access
    this.#options = options
  }

  /**
   * Server-side apply of one object; a field that another manager holds (kubectl on the node) is taken over.
   * @throws Failure with the API server's reason; Cancelled
   */
  async apply(object: Fields): Promise<void> {
    const path = await this.#pathOf(object)
    await this.#call('PATCH', `${path}?fieldManager=${FIELD_MANAGER}&force=true`, JSON.stringify(object))
  }

  /** The object as the server has it; undefined when there is none. */
  async get(object: Fields): Promise<Fields | undefined> {
    return await this.#call('GET', await this.#pathOf(object))
  }

  /**
   * Waits until a Deployment has rolled out, by the rules of `kubectl rollout status`.
   * @param timeout in milliseconds
   */
  async rolledOut(deployment: Fields, timeout: number): Promise<void> {
    const { log, signal, timing } = this.#options
    const name = describe(deployment)
    const deadline = Date.now() + timeout
    const progress = new Progress((text) => log.info(`${name}: ${text}`), timing.remind)
    for (;;) {
      const state = rolloutOf((await this.get(deployment)) ?? {})
      if (state === undefined) return
      if (state.stuck || Date.now() > deadline) {
        const after = state.stuck ? '' : ` within ${minutes(timeout)}`
        throw new Failure(
          `${name} did not roll out${after}: ${state.waitsFor}`,
          'Look at its pods with kubectl -n kube-system describe.',
        )
      }
      progress.is(state.waitsFor)
      await pause(timing.poll, signal)
    }
  }

  /** Discovery gives the plural of a kind, and whether its objects are in a namespace. */
  async #pathOf(object: Fields): Promise<string> {
    const apiVersion = textOf(object, 'apiVersion')
    const kind = textOf(object, 'kind')
    const metadata = isFields(object.metadata) ? object.metadata : {}
    const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    const found = (await this.#call('GET', root)) ?? {}
    const resource = (Array.isArray(found.resources) ? found.resources : [])
      .filter(isFields)
      .find((each) => textOf(each, 'kind') === kind && !textOf(each, 'name').includes('/'))
    if (resource === undefined) {
      throw new Failure(
        `${describe(object)}: the API server knows no ${kind} of ${apiVersion}`,
        'Take the autoscaler.yaml of the ISO that the cluster was upgraded to.',
      )
    }
    const namespace = textOf(metadata, 'namespace') || 'default'
    const place = resource.namespaced === true ? `/namespaces/${encodeURIComponent(namespace)}` : ''
    return `${root}${place}/${textOf(resource, 'name')}/${encodeURIComponent(textOf(metadata, 'name'))}`
  }

  /** @returns undefined for a 404 to a GET */
  async #call(method: 'GET' | 'PATCH', path: string, body?: string): Promise<Fields | undefined> {
    const { log, signal, timing } = this.#options
    const { server } = this.#access
    const what = `${method} ${server}${path.replace(/\?.*/, '')}`
    const answer = await withRetries(() => this.#exchange(method, path, body), {
      what,
      signal,
      log,
      pauses: timing.pauses,
    }).catch((thrown: unknown) => {
      if (thrown instanceof Failure || thrown instanceof Cancelled) throw thrown
      throw new Failure(
        `${what}: ${oneLine(reasonOf(thrown))}`,
        'Let this machine reach the API server of the cluster, or use redeploy: scale.',
        { cause: thrown },
      )
    })
    if (answer.status === 404 && method === 'GET') return undefined
    const content = jsonOf(answer.text)
    if (answer.status >= 300 || content === undefined) {
      // A metav1.Status; without one, the answer is not from an API server.
      const reason =
        content === undefined
          ? JSON.stringify(oneLine(answer.text).slice(0, 120))
          : textOf(content, 'message')
      throw new Failure(
        `${what}: the API server answered ${answer.status}: ${reason}`,
        'Look at the cluster with kubectl, or use redeploy: scale.',
      )
    }
    return content
  }

  async #exchange(method: 'GET' | 'PATCH', path: string, body: string | undefined): Promise<Answer> {
    const { server, tls, token } = this.#access
    const { signal, timing } = this.#options
    try {
      const answer = await exchange({
        method,
        url: `${server}${path}`,
        headers: {
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': 'application/apply-patch+yaml' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body }),
        tls,
        timeout: timing.request,
        signal,
      })
      if ([429, 502, 503, 504].includes(answer.status)) throw new PassingFault(`answered ${answer.status}`)
      return answer
    } catch (thrown) {
      if (!(thrown instanceof ConnectionFault) || thrown.kind === 'tls') throw thrown
      throw new PassingFault(thrown.message, undefined, { cause: thrown })
    }
  }
}

/** What a Deployment waits for; undefined when it has rolled out. */
function rolloutOf(deployment: Fields): { readonly waitsFor: string; readonly stuck: boolean } | undefined {
  const part = (name: string): Fields => {
    const value = deployment[name]
    return isFields(value) ? value : {}
  }
  const [metadata, spec, status] = [part('metadata'), part('spec'), part('status')]
  const count = (fields: Fields, name: string, absent = 0) => Number(textOf(fields, name) || absent)
  const waitsFor = (text: string, stuck = false) => ({ waitsFor: text, stuck })
  if (count(metadata, 'generation', 1) > count(status, 'observedGeneration')) {
    return waitsFor('not looked at by the controller yet')
  }
  const conditions = (Array.isArray(status.conditions) ? status.conditions : []).filter(isFields)
  const stuck = conditions.find((each) => textOf(each, 'reason') === 'ProgressDeadlineExceeded')
  if (stuck !== undefined)
    return waitsFor(textOf(stuck, 'message') || 'its progress deadline is exceeded', true)
  const wanted = count(spec, 'replicas', 1)
  const updated = count(status, 'updatedReplicas')
  const old = count(status, 'replicas') - updated
  const available = count(status, 'availableReplicas')
  if (updated < wanted) return waitsFor(`${updated} of ${wanted} new pods made`)
  if (old > 0) return waitsFor(`${old} old pods ending`)
  if (available < updated) return waitsFor(`${available} of ${updated} new pods available`)
  return undefined
}

function jsonOf(text: string): Fields | undefined {
  try {
    const content: unknown = JSON.parse(text)
    return isFields(content) ? content : undefined
  } catch {
    return undefined
  }
}

/** `Deployment cluster-autoscaler`. */
export function describe(object: Fields): string {
  const metadata = isFields(object.metadata) ? object.metadata : {}
  return `${textOf(object, 'kind')} ${textOf(metadata, 'name')}`
}
