import { Version } from '@cyclonedx/cyclonedx-library/Spec'
import { JsonStrictValidator } from '@cyclonedx/cyclonedx-library/Validation'
import { describe, expect, it } from 'vitest'
import type { IsoRecord } from '../../src/record/record.ts'
import { formatSbom } from '../../src/record/sbom.ts'

const HASH = 'a'.repeat(64)

const RECORD: IsoRecord = {
  platform: 'linux/arm64',
  cloudstack: '4.22',
  epoch: 1_700_000_000,
  versions: { kubernetes: '1.33.1', 'cni-plugins': '1.7.1' },
  files: [
    {
      path: 'k8s/kubeadm',
      sha256: HASH,
      source: 'https://dl.k8s.io/release/v1.33.1/bin/linux/arm64/kubeadm',
    },
    { path: 'cni/cni-plugins-arm64.tgz', sha256: HASH, source: 'https://example.org/cni.tgz' },
    { path: 'network.yaml', sha256: HASH, source: 'file:my network.yaml' },
    { path: 'dashboard.yaml', sha256: HASH, source: 'none' },
  ],
  images: [
    { reference: 'registry.k8s.io/pause:3.10', digest: `sha256:${HASH}`, path: 'docker/pause:3.10.tar' },
    {
      reference: `quay.io/cilium/cilium:v1.17.1@sha256:${HASH}`,
      digest: `sha256:${HASH}`,
      path: 'docker/cilium:v1.17.1.tar',
    },
    { reference: `ghcr.io/a/b@sha256:${HASH}`, digest: `sha256:${HASH}`, path: 'docker/b@aaaaaaaaaaaa.tar' },
  ],
}

interface Sbom {
  readonly serialNumber: string
  readonly metadata: { readonly timestamp: string; readonly component: { readonly name: string } }
  readonly components: readonly {
    readonly type: string
    readonly name: string
    readonly version?: string
    readonly purl?: string
    readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
    readonly externalReferences?: readonly { readonly url: string }[]
  }[]
}

function read(text: string): Sbom {
  const sbom: Sbom = JSON.parse(text)
  return sbom
}

describe('the SBOM', () => {
  const text = formatSbom(RECORD, { name: 'iso.iso', sha256: HASH })

  it('is valid against the schema of CycloneDX 1.6', async () => {
    expect(await new JsonStrictValidator(Version.v1dot6).validate(text)).toBeNull()
  })

  it('is told apart from an invalid one by that validation', async () => {
    const broken = text.replace('"type": "container"', '"type": "boat"')
    expect(await new JsonStrictValidator(Version.v1dot6).validate(broken)).not.toBeNull()
  })

  it('names every file with version, URL and SHA-256', () => {
    const { components } = read(text)
    expect(components).toHaveLength(RECORD.files.length + RECORD.images.length)
    expect(components.find(({ name }) => name === 'k8s/kubeadm')).toMatchObject({
      type: 'application',
      version: '1.33.1',
      hashes: [{ alg: 'SHA-256', content: HASH }],
      externalReferences: [{ url: RECORD.files[0]?.source }],
    })
    const own = components.find(({ name }) => name === 'network.yaml')
    expect(own).toMatchObject({ type: 'file' })
    expect(own).not.toHaveProperty('externalReferences')
  })

  it('names every image with its digest as a package URL', () => {
    const purls = read(text).components.flatMap(({ purl }) => (purl === undefined ? [] : [purl]))
    expect(purls.toSorted()).toEqual([
      `pkg:oci/b@sha256:${HASH}?arch=arm64&repository_url=ghcr.io%2Fa%2Fb`,
      `pkg:oci/cilium@sha256:${HASH}?arch=arm64&repository_url=quay.io%2Fcilium%2Fcilium&tag=v1.17.1`,
      `pkg:oci/pause@sha256:${HASH}?arch=arm64&repository_url=registry.k8s.io%2Fpause&tag=3.10`,
    ])
  })

  it('is the same for the same record, and carries its time', () => {
    expect(formatSbom(RECORD, { name: 'iso.iso', sha256: HASH })).toBe(text)
    const { serialNumber, metadata } = read(text)
    expect(metadata.timestamp).toBe('2023-11-14T22:13:20.000Z')
    expect(metadata.component.name).toBe('iso.iso')
    const other = read(formatSbom({ ...RECORD, epoch: 1_700_000_001 }, { name: 'iso.iso' }))
    expect(other.serialNumber).not.toBe(serialNumber)
  })
})
