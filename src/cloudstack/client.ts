import { Cancelled, Failure, reasonOf } from '../errors.ts'
import { PassingFault, parseRetryAfter, withRetries } from '../fetch/retry.ts'
import type { Log } from '../log.ts'
import { type Answer, ConnectionFault, exchange } from './http.ts'
import { type Fields, isFields, textOf } from './model.ts'
import { type ApiKeys, signedForm } from './sign.ts'
import { Progress, pause, type Timing } from './timing.ts'
import { minutes, oneLine } from './words.ts'

/** CloudStack answered, with an error: what was asked for was not done. */
export class Refused extends Failure {
  /** CloudStack's error code (ApiErrorCode): 401, 431, 432, 530 and others. */
  readonly code: number
  /** CloudStack's own words. */
  readonly reason: string

  constructor(what: string, code: number, reason: string) {
    super(`${what}: CloudStack answered ${code}: ${reason}`, adviceFor(code, reason))
    this.code = code
    this.reason = reason
  }
}

/** No answer came. */
export class NoAnswer extends Failure {
  /** Whether the request may have been carried out all the same. */
  readonly mayHaveHappened: boolean
  /** What broke. */
  readonly reason: string

  constructor(what: string, endpoint: string, reason: string, mayHaveHappened: boolean) {
    super(
      `${what}: no answer from ${endpoint}: ${reason}`,
      'Check endpoint, that this machine reaches it (proxies: https_proxy, no_proxy), and that CloudStack is up.',
    )
    this.reason = reason
    this.mayHaveHappened = mayHaveHappened
  }
}

/** A job that had not ended when the time for it was up. It goes on in CloudStack. */
export class StillRunning extends Failure {}

/** Answers of a proxy or load balancer, or of CloudStack's rate limit: worth a second look, for reads. */
const PASSING = [408, 429, 502, 503, 504]

/**
 * How long a signature is good: bears clocks that differ a little. `enforce.post.requests.and.timestamps` of newer
 * releases limits it. In milliseconds.
 */
const VALIDITY = 10 * 60_000

export interface CloudStackOptions {
  /** URL of the API, such as https://cloud.example/client/api. */
  readonly endpoint: string
  readonly keys: ApiKeys
  /** PEM of the CAs to trust in place of Node's own. */
  readonly ca?: string
  readonly log: Log
  readonly signal: AbortSignal
  readonly timing: Timing
}

/**
 * The CloudStack API. Every call is a signed POST, so that keys and signatures stay out of the logs of proxies and
 * of CloudStack itself (ApiServlet logs query strings), and so that a CloudStack that enforces POST is served.
 */
export class CloudStack {
  readonly #options: CloudStackOptions

  constructor(options: CloudStackOptions) {
    this.#options = options
  }

  /** The same API under another signal: for what must go on after a cancel. */
  under(signal: AbortSignal): CloudStack {
    return new CloudStack({ ...this.#options, signal })
  }

  get signal(): AbortSignal {
    return this.#options.signal
  }

  get timing(): Timing {
    return this.#options.timing
  }

  /**
   * A call that changes nothing (`list*`, `query*`, `get*`): tried again when the answer is lost.
   * @returns the inside of the answer's `…response`
   * @throws Refused, NoAnswer, Failure, Cancelled
   */
  async read(command: string, parameters: Readonly<Record<string, string>> = {}): Promise<Fields> {
    const { log, signal, timing, endpoint } = this.#options
    try {
      return await withRetries(
        async () => {
          const answer = await this.#post(command, parameters).catch((thrown: unknown) => {
            if (!(thrown instanceof ConnectionFault) || thrown.kind === 'tls') throw thrown
            throw new PassingFault(thrown.message, undefined, { cause: thrown })
          })
          if (PASSING.includes(answer.status)) {
            const wait = parseRetryAfter(answer.retryAfter, Date.now())
            throw new PassingFault(this.#withoutKeys(`${answer.status} ${describe(answer)}`), wait)
          }
          return this.#unwrap(command, answer)
        },
        { what: `${command} at ${endpoint}`, signal, log, pauses: timing.pauses },
      )
    } catch (thrown) {
      throw this.#failure(command, thrown)
    }
  }

  /** All items of a `list*` command, page by page. The first page is as long as this CloudStack allows. */
  async list(
    command: string,
    item: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<readonly Fields[]> {
    const first = await this.read(command, parameters)
    const items = itemsOf(first, item)
    const count = Number(textOf(first, 'count'))
    const pageSize = items.length
    for (let page = 2; pageSize > 0 && items.length < count; page++) {
      const paging = { page: String(page), pagesize: String(pageSize) }
      const more = itemsOf(await this.read(command, { ...parameters, ...paging }), item)
      if (more.length === 0) break
      items.push(...more)
    }
    return items
  }

  /**
   * A call that changes something: sent once. When its answer is lost, whether it took effect must be looked up.
   * @throws Refused when it was not done; NoAnswer; Failure; Cancelled
   */
  async change(command: string, parameters: Readonly<Record<string, string>>): Promise<Fields> {
    try {
      const answer = await this.#post(command, parameters)
      if (answer.status >= 500 && answer.status !== 503 && responseIn(answer.text) === undefined) {
        // A proxy's words for a connection that broke behind it; 503 is one that never came about.
        throw new ConnectionFault('broken', `${answer.status} ${describe(answer)}`)
      }
      return this.#unwrap(command, answer)
    } catch (thrown) {
      throw this.#failure(command, thrown)
    }
  }

  /**
   * Waits for an asynchronous job that a change started.
   * @param started the answer of the change
   * @param what for messages, such as `upgrade of cluster a`
   * @param timeout in milliseconds
   * @throws Refused with the job's own reason; StillRunning; Cancelled
   */
  async job(started: Fields, what: string, timeout: number): Promise<Fields> {
    const { log, signal, timing } = this.#options
    const id = textOf(started, 'jobid')
    if (id === '') throw new Failure(`${what}: CloudStack started no job`, WRONG_ENDPOINT)
    const deadline = Date.now() + timeout
    const progress = new Progress((text) => log.info(`${what}: ${text}`), timing.remind)
    for (;;) {
      progress.is(`job ${id} is running`)
      await pause(timing.poll, signal)
      const result = await this.read('queryAsyncJobResult', { jobid: id }).catch((thrown: unknown) => {
        // CloudStack may restart under a long job, and the job is looked at again after it.
        if (!(thrown instanceof NoAnswer)) throw thrown
        log.info(`${what}: job ${id} cannot be seen at the moment: ${thrown.reason}`)
        return {} as Fields
      })
      const status = textOf(result, 'jobstatus')
      const outcome = isFields(result.jobresult) ? result.jobresult : {}
      if (status === '1') return outcome
      if (status === '2') {
        const code = Number(textOf(outcome, 'errorcode') || textOf(result, 'jobresultcode'))
        throw new Refused(what, code, this.#withoutKeys(textOf(outcome, 'errortext') || 'no reason given'))
      }
      if (Date.now() > deadline) {
        throw new StillRunning(
          `${what}: job ${id} has not ended within ${minutes(timeout)}`,
          'It goes on in CloudStack: look there how it ends, and allow more time with the timeout inputs.',
        )
      }
    }
  }

  async #post(command: string, parameters: Readonly<Record<string, string>>): Promise<Answer> {
    const { endpoint, keys, ca, log, signal, timing } = this.#options
    log.debug(`CloudStack: ${command}`)
    const body = signedForm(
      { ...parameters, command, response: 'json' },
      keys,
      new Date(Date.now() + VALIDITY),
    )
    return await exchange({
      method: 'POST',
      url: endpoint,
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body,
      timeout: timing.request,
      signal,
      ...(ca === undefined ? {} : { tls: { ca } }),
    })
  }

  #unwrap(command: string, answer: Answer): Fields {
    const { endpoint } = this.#options
    if (answer.status >= 300 && answer.status < 400) {
      const to = this.#withoutKeys(answer.location ?? 'nowhere')
      throw new Failure(
        `${command}: ${endpoint} redirects to ${to}`,
        'Set endpoint to the URL of the API itself.',
      )
    }
    const response = responseIn(answer.text)
    if (response === undefined) {
      throw new Failure(
        `${command}: ${endpoint} answered ${answer.status} ${this.#withoutKeys(describe(answer))}, which is no answer of the CloudStack API`,
        WRONG_ENDPOINT,
      )
    }
    const code = textOf(response, 'errorcode')
    if (code !== '' || answer.status >= 400) {
      const reason = textOf(response, 'errortext') || 'no reason given'
      throw new Refused(command, Number(code) || answer.status, this.#withoutKeys(reason))
    }
    return response
  }

  /** Puts whatever a call threw into words, without keys. */
  #failure(command: string, thrown: unknown): unknown {
    if (thrown instanceof Failure || thrown instanceof Cancelled) return thrown
    const { endpoint } = this.#options
    const fault = thrown instanceof PassingFault && thrown.cause !== undefined ? thrown.cause : thrown
    const reason = this.#withoutKeys(oneLine(reasonOf(fault)))
    if (fault instanceof ConnectionFault && fault.kind === 'tls') {
      return new Failure(
        `${command}: no TLS connection to ${endpoint}: ${reason}`,
        'Set ca-file to the PEM file of the CA that signed the certificate of the endpoint, and check its host name.',
      )
    }
    return new NoAnswer(
      command,
      endpoint,
      reason,
      !(fault instanceof ConnectionFault) || fault.kind === 'broken',
    )
  }

  #withoutKeys(text: string): string {
    const { apiKey, secretKey } = this.#options.keys
    return text.replaceAll(secretKey, '***').replaceAll(apiKey, '***')
  }
}

const WRONG_ENDPOINT = 'Set endpoint to the URL of the CloudStack API; mostly it ends in /client/api.'

/** The inside of `{"…response": {…}}`. */
function responseIn(text: string): Fields | undefined {
  try {
    const body: unknown = JSON.parse(text)
    if (!isFields(body)) return undefined
    const inside = Object.entries(body).find(([key]) => key.toLowerCase().endsWith('response'))?.[1]
    return isFields(inside) ? inside : undefined
  } catch {
    return undefined
  }
}

function itemsOf(response: Fields, item: string): Fields[] {
  const items = response[item]
  return Array.isArray(items) ? items.filter(isFields) : []
}

function describe(answer: Answer): string {
  return JSON.stringify(oneLine(answer.text).slice(0, 120))
}

/** The codes are those of CloudStack's ApiErrorCode. */
function adviceFor(code: number, reason: string): string {
  if (code === 401 && !/not available for user/.test(reason)) {
    return 'Check api-key and secret-key, that their user is enabled, and the clock of this machine (signatures expire). CloudStack answers the same when its Kubernetes service is off (cloud.kubernetes.service.enabled).'
  }
  if (code === 401 || code === 432) {
    return 'Use the keys of a user whose role allows this call: registering and its clean-up take a root admin.'
  }
  if (code === 429) return 'Run again later, or raise the API limit of this account in CloudStack.'
  if (code === 430 || code === 431) return 'Look at the inputs that these values come from.'
  return "Look into CloudStack's management server log for the time of this run."
}
