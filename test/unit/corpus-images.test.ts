import { describe, expect, it } from 'vitest'
import { requireAutoscalerPlaceholders, withAutoscalerPermissions } from '../../src/manifests/autoscaler.ts'
import { withOnlyImage, withPullPolicies, withReplacedImages } from '../../src/manifests/edit.ts'
import { imagesOf } from '../../src/manifests/images.ts'
import { mentionedImages } from '../../src/manifests/mentions.ts'
import { objectsOf } from '../../src/manifests/objects.ts'
import { operatorHint } from '../../src/manifests/operator.ts'
import { parseManifest } from '../../src/manifests/parse.ts'
import { type CorpusManifest, corpusDir, corpusManifests } from '../corpus.ts'

const manifests = corpusManifests()

function named(part: string): CorpusManifest {
  const found = manifests.find(({ name }) => name.includes(part))
  if (found === undefined) throw new Error(`the corpus has no ${part}`)
  return found
}

/** What a line-based comparison shows: the lines that only one of the two texts has. */
function changedLines(before: string, after: string): { removed: string[]; added: string[] } {
  const removed = before.split('\n')
  const added: string[] = []
  for (const line of after.split('\n')) {
    const at = removed.indexOf(line)
    if (at < 0) added.push(line)
    else removed.splice(at, 1)
  }
  return { removed, added }
}

describe.skipIf(corpusDir === undefined)('the real manifests of the corpus', () => {
  it.each(manifests)('$name gives exactly its images', ({ name, text, images }) => {
    expect(imagesOf(parseManifest(text, name))).toEqual(images)
  })

  it.each(manifests)(
    '$name keeps its images and objects when its pull policies are set',
    ({ name, text, images }) => {
      const before = parseManifest(text, name)
      const after = withPullPolicies(before)
      expect(imagesOf(after)).toEqual(images)
      expect(after.objects).toBe(before.objects)
      const { removed, added } = changedLines(before.text, after.text)
      expect([...removed, ...added].filter((line) => !/^ *(?:imageP|p)ullPolicy: /.test(line))).toEqual([])
      expect(added.every((line) => line.includes('IfNotPresent'))).toBe(true)
      expect(withPullPolicies(after)).toBe(after)
    },
  )

  it('names no image elsewhere that is none, and finds those with a registry, a tag or a digest', () => {
    const found = manifests.flatMap(({ name, text }) => mentionedImages(parseManifest(text, name)))
    const wanted = manifests.flatMap(({ mentions }) => mentions)
    const references = found.map(({ reference }) => reference).toSorted()
    expect(references).toEqual(wanted.filter((reference) => reference !== 'cilium/istio_proxy').toSorted())
    expect(references).toHaveLength(17)
  })

  it('has a CSI manifest with a glued marker, whose twelve objects are all kept', () => {
    const { name, text } = named('cloudstack-csi-driver/releases/download/v3.0.0/manifest.yaml')
    const manifest = parseManifest(text, name)
    expect(manifest.objects).toBe(12)
    expect(manifest.notices).toEqual([expect.stringContaining('line 121')])
    expect(manifest.warnings).toEqual([])
    expect(objectsOf(manifest).map(({ kind, name: object }) => `${kind}/${object}`)).toEqual(
      expect.arrayContaining([
        'ClusterRoleBinding/cloudstack-csi-snapshotter-binding',
        'CSIDriver/csi.cloudstack.apache.org',
      ]),
    )
    expect(manifest.text).toContain(
      '  apiGroup: rbac.authorization.k8s.io\n---\napiVersion: storage.k8s.io/v1\n',
    )
  })

  it.each(manifests.filter(({ name }) => name.includes('/cluster-autoscaler-standard.yaml')))(
    '$name becomes the autoscaler of the ISO and stays as it is around image and policy',
    ({ name, text }) => {
      const image = 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.6'
      const before = parseManifest(text, name)
      expect(before.objects).toBe(6)
      const after = withAutoscalerPermissions(withPullPolicies(withOnlyImage(before, image)))
      expect(after.objects).toBe(8)
      expect(imagesOf(after)).toEqual([image])
      requireAutoscalerPlaceholders(after)
      const original = objectsOf(after).slice(0, 6)
      expect(original.map(({ kind }) => kind)).toEqual(objectsOf(before).map(({ kind }) => kind))
      const kept = after.text.split('\n').slice(0, before.text.trimEnd().split('\n').length)
      const { removed, added } = changedLines(before.text.trimEnd(), kept.join('\n'))
      expect([...removed, ...added].every((line) => /image: |imagePullPolicy: /.test(line))).toBe(true)
      expect(after.text).toContain('- --nodes=<min>:<max>:<cluster-id>\n')
    },
  )

  it('has a Headlamp manifest whose moving tag can be pinned', () => {
    const { name, text } = named('headlamp/v0.45.0')
    const pinned = withPullPolicies(
      withReplacedImages(parseManifest(text, name), (reference) => reference.replace(/:latest$/, ':v0.45.0')),
    )
    expect(imagesOf(pinned)).toEqual(['ghcr.io/headlamp-k8s/headlamp:v0.45.0'])
    expect(changedLines(text, pinned.text)).toEqual({
      removed: ['          image: ghcr.io/headlamp-k8s/headlamp:latest'],
      added: ['          image: ghcr.io/headlamp-k8s/headlamp:v0.45.0'],
    })
  })

  it('tells the manifests that run only an operator from all others', () => {
    const hinted = manifests.filter(({ name, text }) => operatorHint(parseManifest(text, name)) !== undefined)
    expect(hinted.map(({ name }) => name.slice(name.lastIndexOf('/') + 1))).toEqual([
      'tigera-operator.yaml',
      'operator.yaml',
    ])
  })

  it('reads, edits and reads again half a megabyte of Calico in well under two seconds of processor time', () => {
    const { name, text } = named('calico/v3.30.7')
    const always = text.replaceAll('imagePullPolicy: IfNotPresent', 'imagePullPolicy: Always')
    const start = process.cpuUsage()
    const edited = withPullPolicies(
      withReplacedImages(parseManifest(always, name), (image) => `mirror.example/${image}`),
    )
    expect(imagesOf(edited)).toHaveLength(3)
    expect(process.cpuUsage(start).user / 1e6).toBeLessThan(2)
  })
})
