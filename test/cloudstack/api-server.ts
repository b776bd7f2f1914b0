import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { TLSSocket } from 'node:tls'
import { stringify } from 'yaml'
import type { Certificates, Pair } from './certificates.ts'

type Json = Record<string, unknown>

/** What discovery says of the kinds in an autoscaler manifest. */
const RESOURCES: Readonly<Record<string, readonly Json[]>> = {
  '/api/v1': [
    { name: 'serviceaccounts', kind: 'ServiceAccount', namespaced: true },
    { name: 'serviceaccounts/token', kind: 'TokenRequest', namespaced: true },
  ],
  '/apis/apps/v1': [
    { name: 'deployments/status', kind: 'Deployment', namespaced: true },
    { name: 'deployments', kind: 'Deployment', namespaced: true },
  ],
  '/apis/rbac.authorization.k8s.io/v1': [
    { name: 'clusterroles', kind: 'ClusterRole', namespaced: false },
    { name: 'clusterrolebindings', kind: 'ClusterRoleBinding', namespaced: false },
    { name: 'roles', kind: 'Role', namespaced: true },
    { name: 'rolebindings', kind: 'RoleBinding', namespaced: true },
  ],
}

/**
 * Our own stand-in of a Kubernetes API server: discovery, server-side apply and reads, over TLS for those who show a
 * certificate of its CA, or the token. A Deployment rolls out with each look at it.
 */
export class ApiServerStandIn {
  /** What was applied or was there, by path. */
  readonly objects = new Map<string, Json>()
  /** `<method> <path and query>` of every request that was let in. */
  readonly requests: string[] = []
  readonly token = 'a-service-account-token'
  /** How the next rollouts go: an answer a look, the last one stays. */
  rollout: readonly Json[] = [
    { observedGeneration: 1, replicas: 1, updatedReplicas: 0, availableReplicas: 1 },
    { observedGeneration: 2, replicas: 1, updatedReplicas: 0, availableReplicas: 1 },
    { observedGeneration: 2, replicas: 2, updatedReplicas: 1, availableReplicas: 1 },
    { observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 0 },
    { observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
  ]
  /** Paths whose next requests end without an answer. */
  readonly drops: string[] = []
  /** An answer other than the usual one, by the end of a path. */
  readonly refusals = new Map<string, { readonly code: number; readonly message: string }>()
  readonly #certificates: Certificates
  #looks = 0
  #server: Server | undefined
  #url = ''

  constructor(certificates: Certificates) {
    this.#certificates = certificates
  }

  async start(): Promise<void> {
    const { ca, server } = this.#certificates
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      void this.#serve(request, response)
    this.#server = createServer({ ...server, ca, requestCert: true, rejectUnauthorized: false }, listener)
    await new Promise<void>((resolve) => this.#server?.listen(0, '127.0.0.1', resolve))
    const address = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('no address')
    this.#url = `https://127.0.0.1:${address.port}`
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections()
    await new Promise<void>((resolve) => this.#server?.close(() => resolve()))
  }

  /** A kubeconfig as kubeadm writes admin.conf. */
  kubeconfig(user: Pair | { readonly token: string } = this.#certificates.client): string {
    const base64 = (text: string) => Buffer.from(text).toString('base64')
    const shown =
      'token' in user
        ? user
        : { 'client-certificate-data': base64(user.cert), 'client-key-data': base64(user.key) }
    return stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'kubernetes-admin@kubernetes',
      contexts: [
        { name: 'kubernetes-admin@kubernetes', context: { cluster: 'kubernetes', user: 'kubernetes-admin' } },
      ],
      clusters: [
        { name: 'other', cluster: { server: 'https://192.0.2.1:6443' } },
        {
          name: 'kubernetes',
          cluster: { server: this.#url, 'certificate-authority-data': base64(this.#certificates.ca) },
        },
      ],
      users: [{ name: 'kubernetes-admin', user: shown }],
    })
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const send = (code: number, content: Json) => {
      response.writeHead(code, { 'content-type': 'application/json' })
      response.end(JSON.stringify(content))
    }
    const status = (code: number, message: string) =>
      send(code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code })
    const known = request.socket instanceof TLSSocket && request.socket.authorized
    if (!known && request.headers.authorization !== `Bearer ${this.token}`) return status(401, 'Unauthorized')
    this.requests.push(`${request.method} ${request.url}`)
    const drop = this.drops.findIndex((each) => path.endsWith(each))
    if (drop >= 0) {
      this.drops.splice(drop, 1)
      return void request.socket.destroy()
    }
    const refusal = [...this.refusals].find(([end]) => path.endsWith(end))?.[1]
    if (refusal !== undefined) return status(refusal.code, refusal.message)
    const resources = RESOURCES[path]
    if (resources !== undefined) return send(200, { kind: 'APIResourceList', resources })
    if (request.method === 'GET') {
      const object = this.objects.get(path)
      if (object === undefined) return status(404, `${path} not found`)
      if (path.includes('/deployments/') && object.generation2 === true) {
        const last = this.rollout.length - 1
        return send(200, { ...object, status: this.rollout[Math.min(this.#looks++, last)] })
      }
      return send(200, object)
    }
    if (request.method === 'PATCH') {
      if (request.headers['content-type'] !== 'application/apply-patch+yaml') return status(415, 'no apply')
      const manager = new URLSearchParams(query)
      if (!manager.get('fieldManager') || manager.get('force') !== 'true')
        return status(409, 'Apply failed with 1 conflict')
      const object: Json = JSON.parse(body)
      const metadata = { ...(object.metadata as Json), generation: 2 }
      this.objects.set(path, { ...object, metadata, generation2: true })
      this.#looks = 0
      return send(200, { ...object, metadata })
    }
    status(405, 'not here')
  }
}
