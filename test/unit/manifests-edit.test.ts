import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { withOnlyImage, withPullPolicies, withReplacedImages } from '../../src/manifests/edit.ts'
import { imagesOf, imageUses } from '../../src/manifests/images.ts'
import { parseManifest } from '../../src/manifests/parse.ts'
import { rewritten } from '../../src/manifests/splice.ts'

/** A pod whose containers are the given lines, indented. */
function pod(containers: string): string {
  return `# ours\napiVersion: v1\nkind: "Pod" # a pod\nspec:\n  containers:\n${containers.replace(/^(?=.)/gm, '  ')}`
}

const policies = (text: string): string => withPullPolicies(parseManifest(text, 'm.yaml')).text
const replaced = (text: string, to = 'ghcr.io/new/one:2') =>
  withReplacedImages(parseManifest(text, 'm.yaml'), (reference) => (reference === 'old:1' ? to : undefined))
    .text

describe('a pull policy', () => {
  it.each([
    ['that is plain', '- name: a\n  image: x:1\n  imagePullPolicy: Always # why\n', 'Always', 'IfNotPresent'],
    ['of Never', '- image: x:1\n  imagePullPolicy: Never\n', 'Never', 'IfNotPresent'],
    ['in single quotes', "- image: x:1\n  imagePullPolicy: 'Always'\n", "'Always'", "'IfNotPresent'"],
    ['in double quotes', '- image: x:1\n  imagePullPolicy: "Always"\n', '"Always"', '"IfNotPresent"'],
    [
      'that is a folded scalar',
      '- image: x:1\n  imagePullPolicy: >- # c\n    Always\n\n  name: b\n',
      'Always',
      'IfNotPresent',
    ],
    [
      'that is a literal scalar at the end',
      '- image: x:1\n  imagePullPolicy: |-\n      Always',
      'Always',
      'IfNotPresent',
    ],
    ['on the next line', '- image: x:1\n  imagePullPolicy:\n    Always\n', 'Always', 'IfNotPresent'],
    ['in a flow map', '- {image: x:1, imagePullPolicy: Always, name: a}\n', 'Always', 'IfNotPresent'],
    ['in JSON', '- {"image": "x:1", "imagePullPolicy":"Always"}\n', '"Always"', '"IfNotPresent"'],
    [
      'that is empty',
      '- image: x:1\n  imagePullPolicy: # none\n  name: a\n',
      'Policy: #',
      'Policy: IfNotPresent #',
    ],
    ['that is empty at the end', '- image: x:1\n  imagePullPolicy:', 'Policy:', 'Policy: IfNotPresent'],
    ['that is empty text', '- image: x:1\n  imagePullPolicy: ""\n', '""', '"IfNotPresent"'],
    ['that is null', '- image: x:1\n  imagePullPolicy: null\n', 'null', 'IfNotPresent'],
    [
      'that is a lone key in a flow map',
      '- {image: x:1, imagePullPolicy, name: a}\n',
      'Policy,',
      'Policy: IfNotPresent,',
    ],
    ['of an explicit key', '- image: x:1\n  ? imagePullPolicy\n  : Always\n', 'Always', 'IfNotPresent'],
    [
      'with a tag and an anchor',
      '- image: x:1\n  imagePullPolicy: !!str &p Always\n',
      'Always',
      'IfNotPresent',
    ],
  ])('%s becomes IfNotPresent and nothing else changes', (_, containers, from, to) => {
    const text = pod(containers)
    expect(policies(text)).toBe(text.replace(from, to))
    expect(policies(policies(text))).toBe(policies(text))
  })

  it.each([
    [
      'latest',
      '- name: a\n  image: x:latest\n',
      '- name: a\n  image: x:latest\n  imagePullPolicy: IfNotPresent\n',
    ],
    ['no tag', '- image: reg:5000/x\n', '- image: reg:5000/x\n  imagePullPolicy: IfNotPresent\n'],
    [
      'latest beside a digest, since kubelet goes by the tag',
      `- image: x:latest@sha256:${'a'.repeat(64)}\n`,
      `- image: x:latest@sha256:${'a'.repeat(64)}\n  imagePullPolicy: IfNotPresent\n`,
    ],
    [
      'a comment behind',
      '- image: x # c\n  # d\n  name: a\n',
      '- image: x # c\n  imagePullPolicy: IfNotPresent\n  # d\n  name: a\n',
    ],
    ['no last newline', '- name: a\n  image: x', '- name: a\n  image: x\n  imagePullPolicy: IfNotPresent'],
    [
      'a folded image',
      '- image: >-\n    x:latest\n\n  name: a\n',
      '- image: >-\n    x:latest\n  imagePullPolicy: IfNotPresent\n\n  name: a\n',
    ],
    [
      'its image on the next line',
      '- image:\n    x\n  name: a\n',
      '- image:\n    x\n  imagePullPolicy: IfNotPresent\n  name: a\n',
    ],
    [
      'wide dashes',
      '-   image: x\n    name: a\n',
      '-   image: x\n    imagePullPolicy: IfNotPresent\n    name: a\n',
    ],
    [
      'an anchor of the container',
      '- &c\n  image: x\n',
      '- &c\n  image: x\n  imagePullPolicy: IfNotPresent\n',
    ],
    [
      'an anchor of its first key',
      '- &k image: x\n  name: a\n',
      '- &k image: x\n  imagePullPolicy: IfNotPresent\n  name: a\n',
    ],
    [
      'an explicit key',
      '- ? image\n  : x\n  ? name\n  : a\n',
      '- ? image\n  : x\n  imagePullPolicy: IfNotPresent\n  ? name\n  : a\n',
    ],
    [
      'a flow map',
      '- {name: a, image: x, tty: true}\n',
      '- {name: a, image: x, imagePullPolicy: IfNotPresent, tty: true}\n',
    ],
    ['a flow map that ends', '- {image: "x" }\n', '- {image: "x", imagePullPolicy: IfNotPresent }\n'],
    ['JSON', '- {"image":"x"}\n', '- {"image":"x", "imagePullPolicy": "IfNotPresent"}\n'],
    [
      'JSON over several lines',
      '- {\n    "name": "a",\n    "image": "x",\n    "tty": true\n  }\n',
      '- {\n    "name": "a",\n    "image": "x",\n    "imagePullPolicy": "IfNotPresent",\n    "tty": true\n  }\n',
    ],
    [
      'an alias',
      '- &c {image: x}\n- *c\n- *c\n',
      '- &c {image: x, imagePullPolicy: IfNotPresent}\n- *c\n- *c\n',
    ],
    [
      'a merge key',
      '- &c {image: x:1}\n- image: y:1\n  name: b\n- <<: *c\n  image: z\n',
      '- &c {image: x:1}\n- image: y:1\n  name: b\n- <<: *c\n  image: z\n  imagePullPolicy: IfNotPresent\n',
    ],
    [
      'two images, of which the last counts',
      '- image: x\n  image: y\n',
      '- image: x\n  image: y\n  imagePullPolicy: IfNotPresent\n',
    ],
  ])('is added beside %s', (_, containers, expected) => {
    expect(policies(pod(containers))).toBe(pod(expected))
    expect(policies(pod(expected))).toBe(pod(expected))
  })

  it('is added where the image comes by a merge key only', () => {
    const text =
      'apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: &c {image: x}\nspec:\n  containers:\n    - # c\n      <<: *c\n      name: a\n    - {<<: *c, name: b}\n'
    const after = policies(text)
    expect(after).toBe(
      text
        .replace('      <<: *c', '      imagePullPolicy: IfNotPresent\n      <<: *c')
        .replace('{<<: *c', '{imagePullPolicy: IfNotPresent, <<: *c'),
    )
  })

  it('that comes by a merge key is changed where it stands, an alias where it is used', () => {
    const text = pod(
      '- &c\n  image: x:1\n  imagePullPolicy: &p Always\n- <<: *c\n  name: b\n- image: y:1\n  imagePullPolicy: *p\n',
    )
    expect(policies(text)).toBe(text.replace('&p Always', '&p IfNotPresent').replace('*p', 'IfNotPresent'))
    const annotated = `apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {p: &p Always}\nspec:\n  containers:\n    - image: y:1\n      imagePullPolicy: *p\n`
    expect(policies(annotated)).toBe(annotated.replace('Policy: *p', 'Policy: IfNotPresent'))
  })

  it.each([
    ['a fixed tag', pod('- image: x:1\n')],
    ['a digest', pod(`- image: x@sha256:${'a'.repeat(64)}\n`)],
    ['IfNotPresent already', pod('- image: x\n  imagePullPolicy: IfNotPresent\n')],
    ['no image', pod('- name: a\n')],
    ['an image that is no reference', pod('- image: "{{ x }}"\n')],
    [
      'a custom resource',
      'apiVersion: e.com/v1\nkind: W\nspec: {containers: [{image: x, imagePullPolicy: Always}]}\n',
    ],
    [
      'a CRD schema',
      'apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  containers:\n    - image: x\n  properties:\n    imagePullPolicy:\n      type: string\n      default: Always\n',
    ],
  ])('stays as it is with %s', (_, text) => {
    const manifest = parseManifest(text, 'm.yaml')
    expect(withPullPolicies(manifest)).toBe(manifest)
  })

  it('is set in all container lists, image volumes, CronJobs and Lists', () => {
    const text = `apiVersion: v1
kind: List
items:
  - apiVersion: batch/v1
    kind: CronJob
    spec:
      jobTemplate:
        spec:
          template:
            spec:
              volumes:
                - name: v
                  image:
                    reference: x
                    # keep
                - image: {reference: y:1, pullPolicy: Always}
              initContainers:
              - image: x
              ephemeralContainers:
              - image: x
              containers:
              - imagePullPolicy: Always
                image: x:1
`
    expect(policies(text)).toBe(
      text
        .replace('reference: x\n', 'reference: x\n                    pullPolicy: IfNotPresent\n')
        .replaceAll('Always', 'IfNotPresent')
        .replaceAll('- image: x\n', '- image: x\n                imagePullPolicy: IfNotPresent\n'),
    )
  })

  it('is set in a manifest with CRLF, whose text has LF afterwards', () => {
    const text = pod('- image: x\n- image: y:1\n  imagePullPolicy: Always\n')
    expect(policies(text.replaceAll('\n', '\r\n'))).toBe(policies(text))
    expect(policies(text)).not.toContain('\r')
  })

  it('that cannot be set is a failure, not a wrong manifest', () => {
    const text = pod('- image: x:1\n  imagePullPolicy: |\n    Always\n')
    expect(() => policies(text)).toThrow('m.yaml cannot be edited: a pull policy is not what it was set to')
  })

  it('keeps the notices and warnings of the manifest', () => {
    const text = `${pod('- image: x\n  image: y')}---\napiVersion: v1\nkind: ConfigMap\n`
    const after = withPullPolicies(parseManifest(text, 'm.yaml'))
    expect(after.notices).toHaveLength(1)
    expect(after.warnings).toHaveLength(1)
    expect(after.objects).toBe(2)
  })
})

describe('an image', () => {
  it.each([
    ['plain', '- image: old:1 # c\n', 'old:1', 'ghcr.io/new/one:2'],
    ['in single quotes', "- image: 'old:1'\n", "'old:1'", "'ghcr.io/new/one:2'"],
    ['in double quotes', '- image: "old:1"\n', '"old:1"', '"ghcr.io/new/one:2"'],
    ['in a flow map', '- {image: old:1}\n', 'old:1', 'ghcr.io/new/one:2'],
    ['in JSON', '- {"image":"old:1"}\n', '"old:1"', '"ghcr.io/new/one:2"'],
    ['folded', '- image: >-\n    old:1\n  name: a\n', 'old:1', 'ghcr.io/new/one:2'],
    ['on the next line', '- image:\n    old:1\n', 'old:1', 'ghcr.io/new/one:2'],
    ['without a last newline', '- image: old:1', 'old:1', 'ghcr.io/new/one:2'],
  ])('written %s is replaced in the same style', (_, containers, from, to) => {
    expect(replaced(pod(containers))).toBe(pod(containers).replace(from, to))
  })

  it('that an alias gives is replaced where it is used', () => {
    const text =
      'apiVersion: v1\nkind: Pod\nmetadata: {annotations: {i: &i old:1}}\nspec:\n  containers:\n    - image: *i\n'
    expect(replaced(text)).toBe(text.replace('image: *i', 'image: ghcr.io/new/one:2'))
  })

  it('of a shared container is replaced once', () => {
    const text = pod('- &c {image: old:1}\n- *c\n- {<<: *c, name: x}\n')
    expect(replaced(text)).toBe(text.replace('old:1', 'ghcr.io/new/one:2'))
  })

  it('that YAML could read as something else is quoted', () => {
    expect(replaced(pod('- image: old:1\n'), '10.0.0.1:5000/x:1')).toBe(pod('- image: "10.0.0.1:5000/x:1"\n'))
    expect(replaced(pod('- image: old:1\n'), 'null')).toBe(pod('- image: "null"\n'))
  })

  it('that cannot be set is a failure, not a wrong manifest', () => {
    const text = pod('- image: |\n    old:1\n')
    expect(() => withOnlyImage(parseManifest(text, 'm.yaml'), 'new:1')).toThrow('could not be set to new:1')
  })

  it('that nobody replaces leaves the manifest as it is', () => {
    const manifest = parseManifest(pod('- image: x:1\n'), 'm.yaml')
    expect(withReplacedImages(manifest, () => undefined)).toBe(manifest)
    expect(withReplacedImages(manifest, (reference) => reference)).toBe(manifest)
  })

  it('is not looked for in comments, arguments and other objects', () => {
    const text = `${pod('# image: old:1\n- image: old:1\n  args: ["old:1"]\n')}---\napiVersion: v1\nkind: ConfigMap\ndata: {image: old:1}\n`
    expect(replaced(text)).toBe(text.replace('- image: old:1', '- image: ghcr.io/new/one:2'))
  })
})

describe('the only image of a manifest', () => {
  it('is set', () => {
    const after = withOnlyImage(parseManifest(pod('- image: x:1\n'), 'm.yaml'), 'ghcr.io/a/b:v2')
    expect(imagesOf(after)).toEqual(['ghcr.io/a/b:v2'])
  })

  it.each([
    ['none', pod('- name: a\n'), 'm.yaml holds no container image where one is expected'],
    [
      'two',
      pod('- image: a:1\n- image: b:1\n'),
      'm.yaml holds 2 container images (a:1, b:1) where one is expected',
    ],
    ['one twice', pod('- image: a:1\n- image: a:1\n'), 'holds 2 container images (a:1, a:1)'],
  ])('cannot be set where there is %s', (_, text, message) => {
    expect(() => withOnlyImage(parseManifest(text, 'm.yaml'), 'x:1')).toThrow(Failure)
    expect(() => withOnlyImage(parseManifest(text, 'm.yaml'), 'x:1')).toThrow(message)
  })
})

describe('an edit', () => {
  const manifest = parseManifest(pod('- image: x:1\n'), 'm.yaml')
  const end = manifest.text.length

  it.each([
    ['makes an object more', '---\napiVersion: v1\nkind: Pod\n', 0, '2 in 2, where 0 more were expected'],
    ['makes none of those it should', '# c\n', 1, '1 in 1, where 1 more were expected'],
    ['makes a document that is no object', '---\na: b\n', 1, 'document 2'],
    ['breaks the YAML', '  ]\n', 0, 'm.yaml'],
  ])('that %s is refused', (_, text, added, message) => {
    expect(() => rewritten(manifest, [{ start: end, end, text }], added)).toThrow(Failure)
    expect(() => rewritten(manifest, [{ start: end, end, text }], added)).toThrow(message)
  })

  it('whose changes overlap is refused', () => {
    const splices = [
      { start: 2, end: 5, text: '' },
      { start: 3, end: 6, text: '' },
    ]
    expect(() => rewritten(manifest, splices)).toThrow('two changes overlap')
  })

  it('leaves the manifest that it was given alone', () => {
    const { text } = manifest
    withOnlyImage(manifest, 'y:1')
    expect(manifest.text).toBe(text)
    expect(imageUses(manifest)).toEqual([{ reference: 'x:1', line: 6 }])
  })
})
