import { createHmac, randomUUID } from 'node:crypto'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Pair } from './certificates.ts'

/** A cluster as the stand-in keeps it; `node` is what its control node holds. */
export interface StandInCluster {
  id: string
  name: string
  zoneid: string
  zonename: string
  kubernetesversionid: string
  state: string
  clustertype: string
  controlnodes: number
  autoscalingenabled: boolean
  minsize: number | undefined
  maxsize: number | undefined
  projectid: string | undefined
  readonly node: {
    /** Autoscaler image of /opt/autoscaler/autoscaler_tmpl.yaml, copied from the ISO by an upgrade. */
    template: string
    /** What runs: set by autoscale-kube-cluster alone. */
    running: { image: string; min: number; max: number } | undefined
  }
  kubeconfig: string | undefined
}

export interface StandInVersion {
  id: string
  name: string
  semanticversion: string
  zoneid: string | undefined
  state: 'Enabled' | 'Disabled'
  arch: string | undefined
  iso: StandInIso
}

export interface StandInIso {
  readonly id: string
  readonly url: string
  checksum: string | undefined
  state: 'Creating' | 'Ready' | 'Failed'
  percent: number
  error: string | undefined
  /** Autoscaler on it. */
  readonly autoscaler: string
}

interface Job {
  readonly id: string
  readonly command: string
  status: 0 | 1 | 2
  result: Json
}

type Json = Record<string, unknown>
type Parameters = Readonly<Record<string, string>>

/** Once, for the next call of a command. */
export type Fault =
  /** All goes well: for a call before the one that does not. */
  | { readonly kind: 'none' }
  /** The connection ends before the command is carried out. */
  | { readonly kind: 'drop' }
  /** The command is carried out, and the connection ends in place of an answer. */
  | { readonly kind: 'lose answer' }
  /** The answer breaks off in its middle. */
  | { readonly kind: 'half an answer' }
  /** No answer for a long time. */
  | { readonly kind: 'silence' }
  /** Another answer, the command not carried out. */
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly text: string
      readonly headers?: Record<string, string>
    }
  | { readonly kind: 'error'; readonly code: number; readonly text: string }
  /** The job fails (for commands with jobs). */
  | { readonly kind: 'job fails'; readonly code: number; readonly text: string }
  /** The job reports success and nothing is done, as seen in some releases. */
  | { readonly kind: 'job does nothing' }
  /** The job never ends. */
  | { readonly kind: 'job hangs' }

const ACCOUNT_KEYS = {
  apiKey: 'aK3y-of_the.user',
  secretKey: 's3cr3t+Key/of~the(user)!',
} as const

/**
 * Our own stand-in of a CloudStack management server: the calls that cks-iso makes, with what they do to versions,
 * ISOs and clusters. Shaped by CloudStack's developer guide and by its source: ApiServer.verifyRequest (signatures),
 * KubernetesVersionManagerImpl, KubernetesClusterManagerImpl (validation), KubernetesClusterScaleWorker (the no-op
 * rule), autoscale-kube-cluster (what a scale does on the node).
 */
export class CloudStackStandIn {
  readonly keys = ACCOUNT_KEYS
  readonly zones = [
    { id: randomUUID(), name: 'zone-1' },
    { id: randomUUID(), name: 'zone-2' },
  ] as const
  readonly versions: StandInVersion[] = []
  readonly clusters: StandInCluster[] = []
  /** Every call that was signed well, in order. */
  readonly calls: { readonly command: string; readonly parameters: Parameters }[] = []
  /** Every request target that arrived: what a proxy's log would show. */
  readonly targets: string[] = []
  /** `cloud.kubernetes.cluster.max.size` of the account. */
  maxClusterSize = 10
  /** `default.page.size`. */
  pageSize = 500
  /** How long a job takes, in milliseconds. */
  jobTime = 30
  /** How far a download is after each look at it, in percent. */
  downloadStep = 50
  /** Why downloads of a URL fail. */
  readonly downloadErrors = new Map<string, string>()
  /** Hears of every call. */
  onCall: (command: string) => void = () => {}
  readonly #faults = new Map<string, Fault[]>()
  readonly #jobs = new Map<string, Job>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #server: Server | undefined

  /** @param tls to serve https instead of http */
  async start(tls?: Pair): Promise<string> {
    const listener: RequestListener = (request, response) => void this.#serve(request, response)
    const server = tls === undefined ? createServer(listener) : createTlsServer({ ...tls }, listener)
    this.#server = server
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${this.port}/client/api`
  }

  get port(): number {
    const address = this.#server?.address()
    if (typeof address !== 'object' || address === null) throw new Error('the stand-in is not started')
    return address.port
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer)
    const server = this.#server
    server?.closeAllConnections()
    await new Promise<void>((resolve) => (server === undefined ? resolve() : server.close(() => resolve())))
  }

  /** Makes the next calls of a command go wrong, one fault each. */
  fault(command: string, ...faults: readonly Fault[]): void {
    this.#faults.set(command, [...(this.#faults.get(command) ?? []), ...faults])
  }

  addVersion(semanticversion: string, more: Partial<StandInVersion> = {}): StandInVersion {
    const version: StandInVersion = {
      id: randomUUID(),
      name: `v${semanticversion}`,
      semanticversion,
      zoneid: undefined,
      state: 'Enabled',
      arch: 'x86_64',
      iso: this.#iso(semanticversion, 'http://isos.example/old.iso', { state: 'Ready', percent: 100 }),
      ...more,
    }
    this.versions.push(version)
    return version
  }

  addCluster(name: string, version: StandInVersion, more: Partial<StandInCluster> = {}): StandInCluster {
    const cluster: StandInCluster = {
      id: randomUUID(),
      name,
      zoneid: this.zones[0].id,
      zonename: this.zones[0].name,
      kubernetesversionid: version.id,
      state: 'Running',
      clustertype: 'CloudManaged',
      controlnodes: 1,
      autoscalingenabled: false,
      minsize: undefined,
      maxsize: undefined,
      projectid: undefined,
      node: { template: version.iso.autoscaler, running: undefined },
      kubeconfig: undefined,
      ...more,
    }
    const { autoscalingenabled, minsize: min, maxsize: max, node } = cluster
    if (autoscalingenabled && min !== undefined && max !== undefined) {
      node.running = { image: node.template, min, max }
    }
    this.clusters.push(cluster)
    return cluster
  }

  /** The calls that change something. */
  get changes(): readonly { readonly command: string; readonly parameters: Parameters }[] {
    return this.calls.filter(({ command }) => !/^(list|query|get)/.test(command))
  }

  #iso(semanticversion: string, url: string, more: Partial<StandInIso> = {}): StandInIso {
    return {
      id: randomUUID(),
      url,
      checksum: undefined,
      state: 'Creating',
      percent: 0,
      error: undefined,
      autoscaler: `registry.k8s.io/autoscaling/cluster-autoscaler:v${semanticversion}`,
      ...more,
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.targets.push(request.url ?? '')
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const raw = request.method === 'POST' ? body : (request.url ?? '').replace(/^[^?]*\??/, '')
    const parameters = Object.fromEntries(new URLSearchParams(raw))
    const command = parameters.command ?? ''
    const send = (status: number, content: Json) => {
      response.writeHead(status, { 'content-type': 'application/json;charset=UTF-8' })
      response.end(JSON.stringify({ [`${command.toLowerCase()}response`]: content }))
    }
    const refusal = this.#refusal(parameters)
    if (refusal !== undefined) return send(401, errorBody(401, refusal))

    this.calls.push({ command, parameters })
    this.onCall(command)
    const fault = this.#faults.get(command)?.shift()
    if (fault?.kind === 'drop') return void request.socket.destroy()
    if (fault?.kind === 'silence') return
    if (fault?.kind === 'answer') {
      response.writeHead(fault.status, { 'content-type': 'text/html', ...fault.headers })
      return void response.end(fault.text)
    }
    if (fault?.kind === 'error') return send(fault.code, errorBody(fault.code, fault.text))
    try {
      const content = this.#carryOut(command, parameters, fault)
      if (fault?.kind === 'lose answer') return void request.socket.destroy()
      if (fault?.kind === 'half an answer') {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
        response.write('{"half":')
        return void setTimeout(() => request.socket.destroy(), 5)
      }
      send(200, content)
    } catch (thrown) {
      if (!(thrown instanceof ApiError)) throw thrown
      send(thrown.code, errorBody(thrown.code, thrown.message))
    }
  }

  /** As ApiServer.verifyRequest, written anew: nothing here is shared with what is tested. */
  #refusal(parameters: Parameters): string | undefined {
    const wrong = 'unable to verify user credentials and/or request signature'
    const byName = new Map(Object.entries(parameters).map(([name, value]) => [name.toLowerCase(), value]))
    if (byName.get('apikey') !== this.keys.apiKey || byName.get('signatureversion') !== '3') return wrong
    const expires = Date.parse(byName.get('expires')?.replace('+0000', 'Z') ?? '')
    if (!(expires > Date.now() && expires < Date.now() + 15 * 60_000)) return wrong
    const unsigned = Object.keys(parameters)
      .filter((name) => name.toLowerCase() !== 'signature')
      .sort()
      .map((name) => `${name}=${javaUrlEncoded(parameters[name] ?? '')}`)
      .join('&')
    const hmac = createHmac('sha1', this.keys.secretKey).update(unsigned.toLowerCase()).digest('base64')
    return hmac === byName.get('signature') ? undefined : wrong
  }

  #carryOut(command: string, parameters: Parameters, fault: Fault | undefined): Json {
    switch (command) {
      case 'listZones':
        return this.#page('zone', this.zones, parameters)
      case 'listKubernetesSupportedVersions':
        return this.#page('kubernetessupportedversion', this.#listVersions(parameters), parameters)
      case 'listIsos':
        return this.#page('iso', this.#listIsos(parameters), parameters)
      case 'listKubernetesClusters':
        return this.#page('kubernetescluster', this.#listClusters(parameters), parameters)
      case 'getKubernetesClusterConfig': {
        const { id, name, kubeconfig } = this.#cluster(parameters)
        if (kubeconfig === undefined)
          throw new ApiError(530, `Config not found for Kubernetes cluster : ${name}`)
        return { clusterconfig: { id, name, configdata: kubeconfig } }
      }
      case 'addKubernetesSupportedVersion':
        return { kubernetessupportedversion: this.#versionFields(this.#addVersion(parameters)) }
      case 'deleteKubernetesSupportedVersion':
        return this.#startJob(command, fault, () => this.#deleteVersion(parameters, fault))
      case 'upgradeKubernetesCluster':
        return this.#startJob(command, fault, this.#upgrade(parameters, fault))
      case 'scaleKubernetesCluster':
        return this.#startJob(command, fault, this.#scale(parameters, fault))
      case 'queryAsyncJobResult': {
        const job = this.#jobs.get(parameters.jobid ?? '')
        if (job === undefined) throw new ApiError(431, `Invalid parameter jobid value=${parameters.jobid}`)
        return {
          cmd: `org.apache.cloudstack.api.command.${job.command}Cmd`,
          jobid: job.id,
          jobstatus: job.status,
          jobprocstatus: 0,
          jobresultcode: job.status === 2 ? 530 : 0,
          ...(job.status === 0 ? {} : { jobresulttype: 'object', jobresult: job.result }),
        }
      }
      default:
        throw new ApiError(432, `The given command:${command} does not exist or it is not available for user`)
    }
  }

  #page(item: string, all: readonly object[], { page, pagesize }: Parameters): Json {
    if (pagesize !== undefined && Number(pagesize) > this.pageSize) {
      throw new ApiError(431, `Page size can't exceed max allowed page size value: ${this.pageSize}`)
    }
    const size = Number(pagesize ?? this.pageSize)
    const start = (Number(page ?? 1) - 1) * size
    const items = all.slice(start, start + size)
    return items.length === 0 ? {} : { count: all.length, [item]: items }
  }

  #listVersions({ id }: Parameters): readonly Json[] {
    return this.versions
      .filter((version) => id === undefined || version.id === id)
      .map((version) => this.#versionFields(version))
  }

  #versionFields({ iso, ...version }: StandInVersion): Json {
    return {
      ...version,
      isoid: iso.id,
      isoname: `${version.name}-Kubernetes-Binaries-ISO`,
      isostate: iso.state,
      supportsha: true,
      supportsautoscaling: true,
    }
  }

  /** Every look moves the download on. The algorithm is left out of the checksum (TemplateJoinDaoImpl). */
  #listIsos({ id, zoneid }: Parameters): readonly Json[] {
    return this.versions
      .filter(({ iso }) => iso.id === id)
      .flatMap((version) => {
        const { iso } = version
        this.#download(iso)
        const zones = this.zones.filter((zone) => zone.id === (version.zoneid ?? zoneid ?? zone.id))
        const failed = iso.state === 'Failed'
        const status = failed
          ? (iso.error ?? '')
          : iso.state === 'Ready'
            ? 'Successfully Installed'
            : `${iso.percent}% Downloaded`
        return zones.map((zone) => ({
          id: iso.id,
          name: `${version.name}-Kubernetes-Binaries-ISO`,
          zoneid: zone.id,
          zonename: zone.name,
          isready: iso.state === 'Ready',
          status,
          checksum: iso.checksum?.replace(/^\{.*\}/, ''),
          arch: version.arch,
          url: iso.url,
          downloaddetails: [
            {
              datastore: 'secondary',
              downloadPercent: String(iso.percent),
              downloadState: failed
                ? 'DOWNLOAD_ERROR'
                : iso.state === 'Ready'
                  ? 'DOWNLOADED'
                  : 'DOWNLOAD_IN_PROGRESS',
            },
          ],
        }))
      })
  }

  #download(iso: StandInIso): void {
    if (iso.state !== 'Creating') return
    const error = this.downloadErrors.get(iso.url)
    if (error !== undefined && iso.percent > 0) Object.assign(iso, { state: 'Failed', error })
    else if (iso.percent >= 100) iso.state = 'Ready'
    else iso.percent = Math.min(100, iso.percent + this.downloadStep)
  }

  #listClusters({ id, projectid }: Parameters): readonly object[] {
    return this.clusters
      .filter((cluster) => id === undefined || cluster.id === id)
      .filter(
        (cluster) =>
          cluster.projectid === projectid || (projectid === '-1' && cluster.projectid !== undefined),
      )
      .map(({ node: _node, kubeconfig: _kubeconfig, ...fields }) => fields)
  }

  #addVersion(parameters: Parameters): StandInVersion {
    const {
      semanticversion = '',
      url = '',
      checksum,
      zoneid,
      name = `v${semanticversion}`,
      arch,
    } = parameters
    if (!/^\d+\.\d+\.\d+$/.test(semanticversion))
      throw new ApiError(431, 'Invalid version format. Semantic version needed')
    if (Number(parameters.mincpunumber) < 2)
      throw new ApiError(431, 'Invalid value for mincpunumber parameter. Minimum 2 vCPUs required.')
    if (Number(parameters.minmemory) < 2048)
      throw new ApiError(431, 'Invalid value for minmemory parameter. Minimum 2048MB memory required')
    if (zoneid !== undefined && !this.zones.some(({ id }) => id === zoneid))
      throw new ApiError(431, 'Invalid zone specified')
    return this.addVersion(semanticversion, {
      name,
      zoneid,
      arch,
      iso: this.#iso(semanticversion, url, { checksum }),
    })
  }

  #deleteVersion({ id }: Parameters, fault: Fault | undefined): Json {
    if (fault?.kind === 'job fails') throw new ApiError(fault.code, fault.text)
    const index = this.versions.findIndex((version) => version.id === id)
    if (index < 0) throw new ApiError(431, 'Invalid Kubernetes version id specified')
    if (this.clusters.some(({ kubernetesversionid }) => kubernetesversionid === id)) {
      throw new ApiError(
        530,
        `Unable to delete Kubernetes version ID: ${id}. Existing clusters currently using the version.`,
      )
    }
    this.versions.splice(index, 1)
    return { success: true }
  }

  #cluster({ id }: Parameters): StandInCluster {
    const cluster = this.clusters.find((each) => each.id === id)
    if (cluster === undefined) {
      throw new ApiError(
        431,
        `Unable to execute API command due to invalid value. Invalid parameter id value=${id} due to incorrect long value format, or entity does not exist`,
      )
    }
    return cluster
  }

  /** What is checked at once is checked inside the job by CloudStack too. */
  #upgrade(parameters: Parameters, fault: Fault | undefined): () => Json {
    const cluster = this.#cluster(parameters)
    const target = this.versions.find(({ id }) => id === parameters.kubernetesversionid)
    if (target === undefined) throw new ApiError(431, 'Invalid Kubernetes version ID')
    const current = this.versions.find(({ id }) => id === cluster.kubernetesversionid)
    if (cluster.state !== 'Running') {
      return fails(431, `Kubernetes cluster : ${cluster.name} is not in running state`)
    }
    const [, from = 0] = (current?.semanticversion ?? '').split('.').map(Number)
    const [, to = 0] = target.semanticversion.split('.').map(Number)
    if (to - from > 1) {
      return fails(431, `Kubernetes clusters can be upgraded between next minor or patch version releases`)
    }
    cluster.state = 'Upgrading'
    return () => {
      if (fault?.kind === 'job fails') {
        cluster.state = 'Alert'
        throw new ApiError(fault.code, fault.text)
      }
      cluster.state = 'Running'
      if (fault?.kind !== 'job does nothing') {
        cluster.kubernetesversionid = target.id
        cluster.node.template = target.iso.autoscaler
      }
      return { kubernetescluster: { id: cluster.id } }
    }
  }

  #scale(parameters: Parameters, fault: Fault | undefined): () => Json {
    const cluster = this.#cluster(parameters)
    const [min, max] = [Number(parameters.minsize), Number(parameters.maxsize)]
    const enable = parameters.autoscalingenabled === 'true'
    // KubernetesClusterManagerImpl.validateKubernetesClusterScaleParameters
    if (!['Created', 'Running', 'Stopped'].includes(cluster.state)) {
      return fails(
        531,
        `Kubernetes cluster ${cluster.name} is in ${cluster.state} state and can not be scaled`,
      )
    }
    if (enable) {
      if (!(min >= 1)) return fails(431, 'Minsize must be at least than 1')
      if (!(max > min)) return fails(431, 'Maxsize must be greater than minsize')
      if (max + cluster.controlnodes > this.maxClusterSize) {
        return fails(
          431,
          `Maximum cluster size can not exceed ${this.maxClusterSize}. Please contact your administrator`,
        )
      }
    }
    // KubernetesClusterScaleWorker.isAutoscalingChanged
    const changed =
      enable !== cluster.autoscalingenabled || min !== cluster.minsize || max !== cluster.maxsize
    if (!changed || fault?.kind === 'job does nothing')
      return () => ({ kubernetescluster: { id: cluster.id } })
    cluster.state = 'Scaling'
    return () => {
      cluster.state = 'Running'
      if (fault?.kind === 'job fails') throw new ApiError(fault.code, fault.text)
      // autoscale-kube-cluster: kubectl apply of the template, or delete of the deployment
      cluster.node.running = enable ? { image: cluster.node.template, min, max } : undefined
      Object.assign(cluster, {
        autoscalingenabled: enable,
        minsize: enable ? min : undefined,
        maxsize: enable ? max : undefined,
      })
      return { kubernetescluster: { id: cluster.id } }
    }
  }

  #startJob(command: string, fault: Fault | undefined, effect: () => Json): Json {
    const job: Job = { id: randomUUID(), command, status: 0, result: {} }
    this.#jobs.set(job.id, job)
    if (fault?.kind === 'job hangs') return { jobid: job.id }
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      try {
        Object.assign(job, { result: effect(), status: 1 })
      } catch (thrown) {
        if (!(thrown instanceof ApiError)) throw thrown
        Object.assign(job, { result: errorBody(thrown.code, thrown.message), status: 2 })
      }
    }, this.jobTime)
    this.#timers.add(timer)
    return { jobid: job.id }
  }
}

class ApiError extends Error {
  readonly code: number

  constructor(code: number, text: string) {
    super(text)
    this.code = code
  }
}

function fails(code: number, text: string): () => Json {
  return () => {
    throw new ApiError(code, text)
  }
}

/** ExceptionResponse of CloudStack. */
function errorBody(errorcode: number, errortext: string): Json {
  return { uuidList: [], errorcode, cserrorcode: 4350, errortext }
}

/** java.net.URLEncoder.encode(…, UTF-8) with `+` made `%20`, byte by byte. */
function javaUrlEncoded(text: string): string {
  return [...Buffer.from(text, 'utf8')]
    .map((byte) => {
      const letter = String.fromCharCode(byte)
      if (/[A-Za-z0-9.\-*_]/.test(letter)) return letter
      return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')
}
