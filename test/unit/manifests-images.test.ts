import { describe, expect, it } from 'vitest'
import { imagesOf, imageUses } from '../../src/manifests/images.ts'
import { mentionedImages } from '../../src/manifests/mentions.ts'
import { operatorHint } from '../../src/manifests/operator.ts'
import { parseManifest } from '../../src/manifests/parse.ts'

const images = (text: string): readonly string[] => imagesOf(parseManifest(text, 'm.yaml'))

/** A flow-style object of a kind with its pod spec at a path of keys. */
function object(apiVersion: string, kind: string, ...path: readonly string[]): string {
  const spec = path.reduceRight((inner, key) => `{${key}: ${inner}}`, '{containers: [{name: a, image: x:1}]}')
  return `apiVersion: ${apiVersion}\nkind: ${kind}\n${spec.slice(1, -1)}\n`
}

/** A pod with the given lines as its one container. */
function pod(container: string): string {
  return `apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - ${container.replaceAll('\n', '\n      ')}\n`
}

describe('the images of a manifest', () => {
  const template = ['spec', 'template', 'spec'] as const
  it.each([
    ['v1', 'Pod', ['spec']],
    ['v1', 'PodTemplate', ['template', 'spec']],
    ['v1', 'ReplicationController', template],
    ['apps/v1', 'Deployment', template],
    ['apps/v1', 'ReplicaSet', template],
    ['apps/v1', 'StatefulSet', template],
    ['apps/v1beta2', 'DaemonSet', template],
    ['extensions/v1beta1', 'Deployment', template],
    ['batch/v1', 'Job', template],
    ['batch/v1', 'CronJob', ['spec', 'jobTemplate', ...template]],
    ['batch/v1beta1', 'CronJob', ['spec', 'jobTemplate', ...template]],
    ['apps.openshift.io/v1', 'DeploymentConfig', template],
  ])('are read from %s %s', (apiVersion, kind, path) => {
    expect(images(object(apiVersion, kind, ...path))).toEqual(['x:1'])
  })

  it.each([
    ['a custom resource of a known name', object('apps.kruise.io/v1', 'StatefulSet', ...template)],
    ['a custom resource of its own name', object('example.com/v1', 'Widget', 'spec')],
    ['a built-in kind of another group', object('batch.volcano.sh/v1', 'Job', ...template)],
    ['a ControllerRevision', object('apps/v1', 'ControllerRevision', 'data', ...template)],
    [
      'a CRD schema',
      'apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  properties:\n    image: {type: string, description: "image: foo:bar", default: "nginx:1"}\n    containers:\n      - image: ghcr.io/a/b:1\n',
    ],
    ['comments', `${pod('name: a\n# image: old/one:1')}    # - image: x:2\n`],
    ['an empty image', pod('name: a\nimage: ""')],
    ['an image without a value', pod('name: a\nimage:')],
    ['an image that is no string', pod('name: a\nimage: 12')],
    ['an image that is a map', pod('name: a\nimage: {repository: x, tag: "1"}')],
    ['containers that are no list', 'apiVersion: v1\nkind: Pod\nspec:\n  containers: {image: x:1}\n'],
  ])('are none in %s', (_, text) => {
    expect(images(text)).toEqual([])
  })

  it.each([
    ['plain', 'image: nginx:1'],
    ['single quotes', "image: 'nginx:1'"],
    ['double quotes', 'image: "nginx:1"'],
    ['a folded scalar', 'image: >-\n  nginx:1'],
    ['a literal scalar', 'image: |-\n  nginx:1'],
    ['the next line', 'image:\n  nginx:1'],
    ['a comment behind', 'image: nginx:1 # pinned'],
    ['a flow map', '{name: a, image: nginx:1}'],
    ['JSON', '{"name": "a", "image": "nginx:1"}'],
    ['an explicit key', '? image\n: nginx:1'],
    ['a quoted key', '"image": nginx:1'],
    ['a tag and an anchor', 'image: !!str &i nginx:1'],
    ['an escape', 'image: "nginx\\u003a1"'],
  ])('are read written as %s', (_, container) => {
    expect(images(pod(container))).toEqual(['nginx:1'])
    expect(images(pod(container).replaceAll('\n', '\r\n'))).toEqual(['nginx:1'])
  })

  it('are read from all three container lists and from image volumes, sorted and once each', () => {
    const text = `apiVersion: v1
kind: Pod
spec:
  volumes:
    - name: v
      image: {reference: "vol:1"}
    - name: w
      emptyDir: {}
  containers: [{image: main:1}, {image: main:1}, {image: Upper/x:1}]
  initContainers: [{image: init:1}]
  ephemeralContainers: [{image: debug:1}]
`
    expect(images(text)).toEqual(['Upper/x:1', 'debug:1', 'init:1', 'main:1', 'vol:1'])
  })

  it('are read from Lists, typed lists and Lists in Lists', () => {
    const item =
      '{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{image: a:1}]}}}}'
    const typed =
      '{apiVersion: apps/v1, kind: DaemonSetList, items: [{spec: {template: {spec: {containers: [{image: b:1}]}}}}]}'
    expect(
      images(
        `apiVersion: v1\nkind: List\nitems: [${item}, {apiVersion: v1, kind: List, items: [${typed}]}]\n`,
      ),
    ).toEqual(['a:1', 'b:1'])
  })

  it('are read through aliases and merge keys as kubectl reads them', () => {
    const text = (containers: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {i: &i "img:1"}\nspec:\n  initContainers:\n    - &base {name: a, image: base:1}\n    - &two {name: b, image: two:1}\n  containers:\n${containers}`
    const read = (containers: string) => images(text(containers)).filter((image) => image !== 'two:1')
    expect(read('    - *base\n')).toEqual(['base:1'])
    expect(read('    - name: x\n      image: *i\n')).toEqual(['base:1', 'img:1'])
    expect(read('    - <<: *base\n      name: x\n')).toEqual(['base:1'])
    expect(read('    - <<: *base\n      image: own:1\n')).toEqual(['base:1', 'own:1'])
    expect(imageUses(parseManifest(text('    - <<: *base\n    - *base\n'), 'm.yaml'))).toHaveLength(4)
    // go-yaml v2 goes by the order of the text: a merge key overrides what stands before it.
    expect(read('    - image: own:1\n      <<: *base\n')).toEqual(['base:1'])
    expect(images(text('    - {<<: *base, <<: *two}\n'))).toEqual(['base:1', 'two:1'])
    expect(imageUses(parseManifest(text('    - {<<: *base, <<: *two}\n'), 'm.yaml')).at(-1)?.reference).toBe(
      'two:1',
    )
    expect(imageUses(parseManifest(text('    - {<<: [*base, *two]}\n'), 'm.yaml')).at(-1)?.reference).toBe(
      'base:1',
    )
  })

  it('go by the last anchor of a name that stands before the alias', () => {
    const text =
      'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - image: &i one:1\n    - image: &i two:1\n    - image: *i\n'
    expect(imageUses(parseManifest(text, 'm.yaml')).map(({ reference }) => reference)).toEqual([
      'one:1',
      'two:1',
      'two:1',
    ])
  })

  it('come with their lines', () => {
    const text = `${pod('name: a\nimage: x:1')}---\n${pod('name: b\nimage: >-\n  y:1')}`
    expect(imageUses(parseManifest(text, 'm.yaml'))).toEqual([
      { reference: 'x:1', line: 6 },
      { reference: 'y:1', line: 13 },
    ])
  })
})

describe('images that a manifest only mentions', () => {
  const DIGEST = `sha256:${'a'.repeat(64)}`
  const mentioned = (text: string) =>
    mentionedImages(parseManifest(text, 'm.yaml')).map(({ reference }) => reference)

  it.each([
    ['an argument', pod('args: ["--config-reloader=quay.io/x/y:v1"]'), 'quay.io/x/y:v1'],
    ['a reference split over two arguments', pod('args: [--image, quay.io/x/y:v1]'), 'quay.io/x/y:v1'],
    ['a command', pod('command:\n- run\n- quay.io/x/y:v1'), 'quay.io/x/y:v1'],
    ['an environment value', pod(`env: [{name: I, value: "gcr.io/a/b@${DIGEST}"}]`), `gcr.io/a/b@${DIGEST}`],
    ['a registry with a port', pod('args: [reg.local:5000/a/b:v1]'), 'reg.local:5000/a/b:v1'],
    ['an address with a port', pod('args: [10.0.0.1:5000/a/b:v1]'), '10.0.0.1:5000/a/b:v1'],
    ['localhost', pod('args: [localhost:5000/a:v1]'), 'localhost:5000/a:v1'],
    ['Docker Hub by name', pod('args: [docker.io/library/busybox:1.36]'), 'docker.io/library/busybox:1.36'],
    ['a ConfigMap', 'apiVersion: v1\nkind: ConfigMap\ndata:\n  plugin: quay.io/x/y:v1\n', 'quay.io/x/y:v1'],
    [
      'a pod inside a ConfigMap',
      'apiVersion: v1\nkind: ConfigMap\ndata:\n  pod.yaml: |\n    containers:\n      - name: h\n        image: "busybox:1.36" # helper\n',
      'busybox:1.36',
    ],
    [
      'a custom resource',
      'apiVersion: e.com/v1\nkind: Widget\nspec:\n  agent: quay.io/x/y:v1\n',
      'quay.io/x/y:v1',
    ],
    [
      'the image of a custom resource',
      'apiVersion: e.com/v1\nkind: Widget\nspec:\n  image: x/y:v1\n',
      'x/y:v1',
    ],
  ])('are found in %s', (_, text, reference) => {
    expect(mentioned(text)).toEqual([reference])
  })

  it.each([
    'docker.io/*',
    '*.example.com/x:1',
    'ghcr.io/',
    'ghcr.io/a/b',
    'ghcr.io/a/b:',
    'system:auth-delegator',
    '--leader-elect=ns:name',
    'host:8080',
    '1.2.3.4:53',
    '10.0.0.0/8:80',
    'otel-collector:4317',
    'nginx:1',
    'x/y:1',
    'quay.io/x/{{ .Values.image }}:v1',
    'quay.io/x/$(NAME):v1',
    'quay.io/x/<name>:v1',
    'quay.io/x/y:v1 and more',
    'https://quay.io/x/y:v1',
    'oci://quay.io/x/y:v1',
    'unix:///run/a.b/c:1',
    '/var/lib/a.b/c:1',
    'node-role.kubernetes.io/master:NoSchedule',
    '--taints=node.kubernetes.io/unreachable:NoExecute',
    'projectcalico.org/v3',
    '2024.01.02/12:30',
    'admin@example.com',
  ])('do not include %s', (value) => {
    expect(mentioned(pod(`args: [${JSON.stringify(value)}]`))).toEqual([])
  })

  it('do not include RBAC names, CRD schemas, keys and comments', () => {
    expect(
      mentioned(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding # quay.io/x/y:v1
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec: {default: quay.io/x/y:v1, image: "a:1"}
---
apiVersion: v1
kind: ConfigMap
data: {"quay.io/x/y:v1": "a"}
`),
    ).toEqual([])
  })

  it('come once, at their first place, and not when kubelet pulls them anyway', () => {
    const text = pod(
      'image: x/y:v1\nargs: [docker.io/x/y:v1, quay.io/x/y:v1]\nenv: [{name: A, value: quay.io/x/y:v1}]',
    )
    expect(
      mentionedImages(parseManifest(text.replace('kind: Pod', 'kind: Pod\nmetadata: {name: p}'), 'm.yaml')),
    ).toEqual([{ reference: 'quay.io/x/y:v1', line: 7, how: 'Pod/p spec.containers[0].args[1]' }])
  })
})

describe('a manifest that runs only an operator', () => {
  const deployment = (name: string, image: string) =>
    `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ${name}}\nspec: {template: {spec: {containers: [{image: "${image}"}]}}}\n`
  const hint = (text: string) => operatorHint(parseManifest(text, 'network.yaml'))

  it('is told by the name of its workload or of its image', () => {
    expect(hint(deployment('tigera-operator', 'quay.io/tigera/operator:v1'))).toMatch(
      /^network\.yaml runs only an operator .*extra-images$/,
    )
    expect(hint(deployment('rook-ceph-operator', 'docker.io/rook/ceph:v1'))).toContain(
      'Deployment/rook-ceph-operator',
    )
    expect(hint(deployment('cilium', 'quay.io/cilium/operator-generic:v1'))).toContain('operator-generic:v1')
  })

  it('is none that runs something else too, or nothing', () => {
    const operator = deployment('tigera-operator', 'quay.io/tigera/operator:v1')
    expect(hint(`${operator}---\n${deployment('agent', 'quay.io/a/agent:v1')}`)).toBeUndefined()
    expect(hint(deployment('cooperator', 'quay.io/a/cooperators:v1'))).toBeUndefined()
    expect(hint('apiVersion: v1\nkind: ConfigMap\nmetadata: {name: operator}\n')).toBeUndefined()
  })
})
