import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { formatReference, parseReference } from '../../src/images/reference.ts'
import { corpusDir } from '../corpus.ts'
import { type Bench, buildFrom, makeBench, readIso } from '../harness.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const CCM = 'https://raw.githubusercontent.com/apache/cloudstack-kubernetes-provider'

/** ISOs from the real manifests and tag lists. */
describe.skipIf(corpusDir === undefined)('from the real manifests', () => {
  let upstream: Upstream
  let bench: Bench

  beforeAll(async () => {
    upstream = await startUpstream({ corpus: corpusDir ?? '' })
    bench = await makeBench()
  })
  afterAll(async () => {
    await bench?.close()
    await upstream?.close()
  })
  afterEach(() => upstream.restore())

  const cases = [
    {
      name: '1.31.14 with defaults',
      values: { 'kubernetes-version': '1.31.14' },
      autoscaler: '1.31.5',
      ccm: '1.2.0',
      dashboard: 'docker.io/kubernetesui/dashboard:v2.7.0',
    },
    {
      name: '1.33.13 with etcd',
      values: { 'kubernetes-version': '1.33.13', 'etcd-version': '3.5.21' },
      autoscaler: '1.33.6',
      ccm: '1.2.0',
      dashboard: 'docker.io/kubernetesui/dashboard:v2.7.0',
    },
    {
      name: '1.33.13 with chosen add-ons, of which one manifest names another release',
      values: {
        'kubernetes-version': 'v1.33.13',
        'autoscaler-version': 'v1.33.4',
        'ccm-version': '1.3.0-rc1',
      },
      autoscaler: '1.33.4',
      ccm: '1.3.0-rc1',
      dashboard: 'docker.io/kubernetesui/dashboard:v2.7.0',
    },
    {
      name: '1.36.1 for arm64 with Flannel and Headlamp',
      values: {
        'kubernetes-version': '1.36.1',
        arch: 'arm64',
        network: 'flannel',
        dashboard: 'headlamp',
        'cloudstack-version': '4.23',
      },
      autoscaler: '1.36.1',
      ccm: '1.2.0',
      dashboard: 'ghcr.io/headlamp-k8s/headlamp:v0.45.0',
    },
  ]

  it.each(cases)('$name', async ({ values, autoscaler, ccm, dashboard }) => {
    const tag = join(
      corpusDir ?? '',
      'raw.githubusercontent.com/apache/cloudstack-kubernetes-provider/v1.2.0',
    )
    upstream.put(`${CCM}/v1.3.0-rc1/deployment.yaml`, readFileSync(join(tag, 'deployment.yaml')))
    await upstream.registry.push('docker.io/apache/cloudstack-kubernetes-provider:v1.3.0-rc1')
    const autoscalerImage = `registry.k8s.io/autoscaling/cluster-autoscaler:v${autoscaler}`
    await upstream.registry.push(autoscalerImage)

    const result = await buildFrom(upstream, bench, values)
    expect(await readdir(bench.temp)).toEqual([])
    const iso = await readIso(result.isoPath, bench)
    const { versions, images } = await iso.record()
    expect(versions).toMatchObject({ autoscaler, ccm })
    expect(versions.etcd).toBe('etcd-version' in values ? '3.5.21' : undefined)

    // The two add-ons name exactly their own images.
    expect(imagesIn(await iso.text('autoscaler.yaml'))).toEqual([autoscalerImage])
    expect(imagesIn(await iso.text('provider.yaml'))).toEqual([
      `apache/cloudstack-kubernetes-provider:v${ccm}`,
    ])
    expect(await iso.objects('autoscaler.yaml')).toHaveLength(8)
    expect(await iso.objects('manifest.yaml')).toHaveLength(12)

    // Archives and image lines are one to one, and each archive carries the name that a manifest asks for.
    const archives = iso.files.filter((file) => file.startsWith('docker/'))
    expect(images.map(({ path }) => path)).toEqual(archives)
    const names = await Promise.all(archives.map((path) => iso.names(path.slice('docker/'.length))))
    const roots = iso.files.filter((file) => /^[^/]+\.yaml$/.test(file))
    const asked = await Promise.all(roots.map(async (file) => imagesIn(await iso.text(file))))
    for (const image of asked.flat())
      expect(names.flat()).toContain(formatReference(parseReference(image, 'the ISO')))
    expect(names.flat()).toEqual(expect.arrayContaining([dashboard, 'registry.k8s.io/pause:3.10']))
  })
})

/** The images of a manifest, read by its lines and not by our own reader. */
function imagesIn(text: string): readonly string[] {
  const lines = text.matchAll(/^\s*(?:- )?image:\s*["']?([^\s"'#]+)/gm)
  return [...new Set([...lines].map((match) => match[1] ?? ''))]
}
