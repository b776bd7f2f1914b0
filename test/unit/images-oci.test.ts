import { describe, expect, it } from 'vitest'
import {
  isKin,
  type Platform,
  readConfigPlatform,
  readIndex,
  readManifest,
  runsOn,
} from '../../src/images/oci.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`
const BLOB = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest: DIGEST, size: 7 }

function platform(text: string): Platform {
  const [os = '', architecture = '', variant] = text.split('/')
  return { os, architecture, ...(variant === undefined ? {} : { variant }) }
}

describe('a platform', () => {
  it.each([
    ['linux/amd64', 'amd64', true],
    ['linux/x86_64', 'amd64', true],
    ['linux/amd64/v1', 'amd64', true],
    ['linux/amd64/v2', 'amd64', false],
    ['linux/386', 'amd64', false],
    ['windows/amd64', 'amd64', false],
    ['linux/arm64', 'amd64', false],
    ['linux/arm64', 'arm64', true],
    ['linux/arm64/v8', 'arm64', true],
    ['linux/aarch64', 'arm64', true],
    ['linux/arm64/v9', 'arm64', false],
    ['linux/arm/v8', 'arm64', false],
    ['unknown/unknown', 'arm64', false],
  ] as const)('%s runs on a node of %s: %s', (text, arch, expected) => {
    expect(runsOn(platform(text), arch)).toBe(expected)
  })

  it.each([
    ['linux/386', 'amd64', true],
    ['linux/amd64/v3', 'amd64', true],
    ['linux/arm/v7', 'amd64', false],
    ['linux/arm/v5', 'arm64', true],
    ['linux/arm', 'arm64', true],
    ['linux/arm64/v9', 'arm64', true],
    ['linux/386', 'arm64', false],
    ['windows/amd64', 'amd64', false],
    ['unknown/unknown', 'amd64', false],
  ] as const)('%s may be taken for its own by a node of %s: %s', (text, arch, expected) => {
    expect(isKin(platform(text), arch)).toBe(expected)
  })
})

describe('a document of an image', () => {
  const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

  it('is read where it has what it must have', () => {
    const entry = {
      ...BLOB,
      platform: { os: 'linux', architecture: 'arm64', variant: 'v8' },
      annotations: {},
    }
    expect(readIndex(bytes({ schemaVersion: 2, manifests: [entry, BLOB] }))).toEqual([
      { ...BLOB, platform: { os: 'linux', architecture: 'arm64', variant: 'v8' } },
      BLOB,
    ])
    expect(readManifest(bytes({ config: BLOB, layers: [BLOB] }))).toEqual({ config: BLOB, layers: [BLOB] })
    expect(readConfigPlatform(bytes({ os: 'linux', architecture: 'amd64', variant: '' }))).toEqual({
      os: 'linux',
      architecture: 'amd64',
    })
  })

  it.each([
    Buffer.from('<html></html>'),
    Buffer.from(''),
    bytes(null),
    bytes([]),
    bytes({}),
    bytes({ manifests: {}, layers: {}, config: {} }),
    bytes({ manifests: [1], layers: [], config: { ...BLOB, digest: '../../etc/passwd' } }),
    bytes({ manifests: [{ ...BLOB, size: '7' }], layers: [{ ...BLOB, mediaType: 1 }], config: BLOB }),
  ])('is refused where it has not: %s', (document) => {
    expect(readIndex(document)).toBeUndefined()
    expect(readManifest(document)).toBeUndefined()
    expect(readConfigPlatform(document)).toBeUndefined()
  })
})
