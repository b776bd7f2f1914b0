import { Failure } from '../errors.ts'
import { at, stringOf, stringsIn } from './nodes.ts'
import { type KubernetesObject, nameOf, objectsOf } from './objects.ts'
import type { Manifest } from './parse.ts'
import { rewritten } from './splice.ts'
import { CHOOSE_ANOTHER } from './text.ts'

/** What the node replaces with sed when it deploys the autoscaler. */
const PLACEHOLDERS = ['<cluster-id>', '<min>', '<max>']
const ROLE = 'cluster-autoscaler-cks-iso'

/**
 * Adds a ClusterRole, and its binding to the service account of the manifest's own Deployment, with what
 * newer autoscalers read and the example manifest does not allow. The objects that are there stay as they are.
 * @throws Failure when the manifest has not exactly one Deployment with a namespace and a service account
 */
export function withAutoscalerPermissions(manifest: Manifest): Manifest {
  const { name, namespace } = serviceAccountOf(manifest)
  const { text } = manifest
  const documents = `---
# Added by cks-iso: what this autoscaler release reads beyond the roles above.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${ROLE}
rules:
  - apiGroups: ["storage.k8s.io"]
    resources: ["volumeattachments"]
    verbs: ["get", "list", "watch"]
  - apiGroups: ["resource.k8s.io"]
    resources: ["resourceclaims", "resourceslices", "deviceclasses"]
    verbs: ["get", "list", "watch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${ROLE}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ${ROLE}
subjects:
  - kind: ServiceAccount
    name: ${JSON.stringify(name)}
    namespace: ${JSON.stringify(namespace)}
`
  const end = text.length
  return rewritten(
    manifest,
    [{ start: end, end, text: text.endsWith('\n') ? documents : `\n${documents}` }],
    2,
  )
}

/**
 * @throws Failure when a placeholder that the node fills in is missing: the autoscaler would not find its
 * cluster. A comment does not count.
 */
export function requireAutoscalerPlaceholders(manifest: Manifest): void {
  const values = objectsOf(manifest).flatMap(({ node }) => stringsIn(node).map(({ text }) => text))
  const missing = PLACEHOLDERS.filter((placeholder) => !values.some((text) => text.includes(placeholder)))
  if (missing.length === 0) return
  throw new Failure(
    `${manifest.where} lacks ${missing.join(', ')}: CloudStack fills these in when it deploys the autoscaler`,
    'Take the manifest of another autoscaler release with autoscaler-version.',
  )
}

function serviceAccountOf(manifest: Manifest): { readonly name: string; readonly namespace: string } {
  const unreadable = (why: string) =>
    new Failure(
      `${manifest.where}: ${why}, so the autoscaler's service account is not known and its permissions cannot be bound`,
      CHOOSE_ANOTHER,
    )
  const [deployment, another] = objectsOf(manifest).filter(({ kind }) => kind === 'Deployment')
  if (deployment === undefined) throw unreadable('there is no Deployment')
  if (another !== undefined)
    throw unreadable(`there are several Deployments (${nameOf(deployment)}, ${nameOf(another)})`)
  const name = accountOf(manifest, deployment)
  if (name === '') throw unreadable(`${nameOf(deployment)} names no service account`)
  if (deployment.namespace === '') throw unreadable(`${nameOf(deployment)} names no namespace`)
  return { name, namespace: deployment.namespace }
}

/** `serviceAccount` is the older spelling, read where the newer one is empty. */
function accountOf({ aliases }: Manifest, { node }: KubernetesObject): string {
  const read = (key: string) => stringOf(aliases, at(aliases, node, 'spec', 'template', 'spec', key)) ?? ''
  return read('serviceAccountName') || read('serviceAccount')
}
