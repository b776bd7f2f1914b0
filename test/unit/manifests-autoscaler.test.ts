import { describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { requireAutoscalerPlaceholders, withAutoscalerPermissions } from '../../src/manifests/autoscaler.ts'
import { withOnlyImage, withPullPolicies } from '../../src/manifests/edit.ts'
import { parseManifest } from '../../src/manifests/parse.ts'

/** In the shape of upstream's example, with a service account of its own. */
const MANIFEST = `---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: scaler
  namespace: infra
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cluster-autoscaler
  namespace: infra
spec:
  template:
    spec:
      serviceAccountName: scaler
      containers:
        - image: example/autoscaler:latest # moves
          name: cluster-autoscaler
          imagePullPolicy: Always
          command:
            - ./cluster-autoscaler
            - --nodes=<min>:<max>:<cluster-id>
`
const parse = (text: string) => parseManifest(text, 'autoscaler.yaml')

describe('the permissions of the autoscaler', () => {
  it('are two more objects behind the original ones, which stay byte for byte', () => {
    const before = parse(MANIFEST)
    const after = withAutoscalerPermissions(before)
    expect(after.objects).toBe(before.objects + 2)
    expect(after.text.startsWith(`${MANIFEST}---\n`)).toBe(true)
  })

  it('allow get, list and watch on what newer releases read, to the service account of the Deployment', () => {
    const [role, binding] = parseAllDocuments(withAutoscalerPermissions(parse(MANIFEST)).text)
      .slice(-2)
      .map((document) => document.toJS())
    const verbs = ['get', 'list', 'watch']
    expect(role).toMatchObject({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      rules: [
        { apiGroups: ['storage.k8s.io'], resources: ['volumeattachments'], verbs },
        {
          apiGroups: ['resource.k8s.io'],
          resources: ['resourceclaims', 'resourceslices', 'deviceclasses'],
          verbs,
        },
      ],
    })
    expect(binding).toMatchObject({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role.metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: 'scaler', namespace: 'infra' }],
    })
  })

  it.each([
    ['no last newline', MANIFEST.trimEnd()],
    ['a last comment', `${MANIFEST}# end`],
    ['an end marker', `${MANIFEST}...\n`],
    ['an empty document at its end', `${MANIFEST}---\n`],
    ['a block scalar at its end', `${MANIFEST}            - |\n              --v=4`],
    ['CRLF', MANIFEST.replaceAll('\n', '\r\n')],
  ])('are added to a manifest with %s', (_, text) => {
    const before = parse(text)
    const after = withAutoscalerPermissions(before)
    expect(after.objects).toBe(4)
    expect(after.text.startsWith(before.text)).toBe(true)
  })

  it('go to the older spelling of the service account too', () => {
    const older = MANIFEST.replace('serviceAccountName: scaler', 'serviceAccount: old')
    expect(withAutoscalerPermissions(parse(older)).text).toContain('name: "old"')
    const both = MANIFEST.replace('serviceAccountName', 'serviceAccount: old\n      serviceAccountName')
    expect(withAutoscalerPermissions(parse(both)).text).toContain('name: "scaler"')
  })

  it.each([
    ['no Deployment', MANIFEST.replace('kind: Deployment', 'kind: DaemonSet'), 'there is no Deployment'],
    [
      'two Deployments',
      `${MANIFEST}---\n${MANIFEST}`,
      'several Deployments (Deployment/cluster-autoscaler, ',
    ],
    [
      'no service account',
      MANIFEST.replace('      serviceAccountName: scaler\n', ''),
      'names no service account',
    ],
    ['no namespace', MANIFEST.replaceAll('  namespace: infra\n', ''), 'names no namespace'],
  ])('are a failure with %s', (_, text, message) => {
    expect(() => withAutoscalerPermissions(parse(text))).toThrow(`autoscaler.yaml: `)
    expect(() => withAutoscalerPermissions(parse(text))).toThrow(message)
  })

  it('come with image and pull policy, and only those lines of the original change', () => {
    const image = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.6'
    const { text } = withAutoscalerPermissions(withPullPolicies(withOnlyImage(parse(MANIFEST), image)))
    const expected = MANIFEST.replace('example/autoscaler:latest', image).replace('Always', 'IfNotPresent')
    expect(text.startsWith(expected)).toBe(true)
  })
})

describe('the placeholders of the autoscaler', () => {
  it('are there', () => {
    expect(() => requireAutoscalerPlaceholders(parse(MANIFEST))).not.toThrow()
  })

  it.each(['<min>', '<max>', '<cluster-id>'])('are missed without %s', (placeholder) => {
    const text = MANIFEST.replace(placeholder, '1')
    expect(() => requireAutoscalerPlaceholders(parse(text))).toThrow(`autoscaler.yaml lacks ${placeholder}:`)
    expect(() => requireAutoscalerPlaceholders(parse(`${text}# ${placeholder}\n`))).toThrow(
      'autoscaler-version',
    )
  })
})
