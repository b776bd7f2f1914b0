import { describe, expect, it } from 'vitest'
import { parseCloudStackRequest } from '../../src/cloudstack/request.ts'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import { Failure } from '../../src/errors.ts'

const SHA = 'ab'.repeat(32)
const CONNECTION = {
  endpoint: 'https://cloud.example/client/api',
  'api-key': 'the-api-key',
  'secret-key': 'the-secret-key',
}
const REGISTER = {
  ...CONNECTION,
  'kubernetes-version': 'v1.33.13',
  'iso-url': 'https://isos.example/a.iso',
  'iso-checksum': SHA,
}
const UPGRADE = { ...CONNECTION, 'kubernetes-version': '1.33.13', clusters: 'a, b\nc' }

const parse = (values: CloudStackValues, front: 'action' | 'register' | 'upgrade' = 'action') =>
  parseCloudStackRequest(values, front, { cwd: '/somewhere' })

describe('what the user asked for', () => {
  it('is a registration with defaults', () => {
    const request = parse(REGISTER)
    expect(request.register).toEqual({
      semver: '1.33.13',
      name: undefined,
      url: 'https://isos.example/a.iso',
      sha256: SHA,
      arch: 'amd64',
      minCpu: 2,
      minMemory: 2048,
      directDownload: false,
      timeout: 3_600_000,
    })
    expect(request.upgrade).toBeUndefined()
    expect(request.dryRun).toBe(false)
  })

  it('is an upgrade with defaults', () => {
    const request = parse(UPGRADE)
    expect(request.upgrade).toEqual({
      choice: { kind: 'named', names: ['a', 'b', 'c'] },
      parallel: 1,
      redeploy: { kind: 'scale' },
      upgradeTimeout: 7_200_000,
      redeployTimeout: 900_000,
    })
    expect(request.register).toBeUndefined()
  })

  it('is both when both are set', () => {
    const request = parse({
      ...REGISTER,
      clusters: 'all',
      zones: 'one\n two ,three',
      'ca-file': 'ca.pem',
      'dry-run': 'True',
    })
    expect(request.upgrade?.choice).toEqual({ kind: 'all' })
    expect(request.zones).toEqual(['one', 'two', 'three'])
    expect(request.caFile).toBe('/somewhere/ca.pem')
    expect(request.dryRun).toBe(true)
  })

  it('is what the command says on the command line, whatever else is set', () => {
    expect(parse({ ...REGISTER, ...UPGRADE }, 'register').upgrade).toBeUndefined()
    expect(parse({ ...REGISTER, ...UPGRADE }, 'upgrade').register).toBeUndefined()
  })

  it.each([SHA, SHA.toUpperCase(), `{SHA-256}${SHA}`])('takes the checksum %s', (checksum) => {
    expect(parse({ ...REGISTER, 'iso-checksum': checksum }).register?.sha256).toBe(SHA)
  })

  it.each([
    ['1.33.13', '1.33.13'],
    ['v1.33.13', '1.33.13'],
    ['refs/tags/v1.33.13', '1.33.13'],
  ])('takes the Kubernetes version %s', (text, semver) => {
    expect(parse({ ...UPGRADE, 'kubernetes-version': text }).semver).toBe(semver)
  })

  it('takes a manifest for redeploy: kubeconfig', () => {
    const values = { ...UPGRADE, redeploy: 'kubeconfig', 'autoscaler-manifest': 'a.yaml' }
    expect(parse(values).upgrade?.redeploy).toEqual({ kind: 'kubeconfig', source: 'a.yaml' })
  })
})

describe('a setting that cannot be used is named', () => {
  it.each<[string, CloudStackValues]>([
    ['endpoint', { ...UPGRADE, endpoint: '' }],
    ['endpoint', { ...UPGRADE, endpoint: 'cloud.example' }],
    ['endpoint', { ...UPGRADE, endpoint: 'ftp://cloud.example/' }],
    ['endpoint', { ...UPGRADE, endpoint: 'https://cloud.example/client/api?command=x' }],
    ['api-key', { ...UPGRADE, 'api-key': ' ' }],
    ['secret-key', { ...UPGRADE, 'secret-key': '' }],
    ['kubernetes-version', { ...UPGRADE, 'kubernetes-version': '1.33' }],
    ['kubernetes-version', { ...UPGRADE, 'kubernetes-version': '1.33.0-rc.1' }],
    ['kubernetes-version', { ...UPGRADE, 'kubernetes-version': '1.33.1; rm -rf /' }],
    ['iso-url', { ...REGISTER, 'iso-url': 'a.iso' }],
    ['iso-checksum', { ...REGISTER, 'iso-checksum': 'd41d8cd98f00b204e9800998ecf8427e' }],
    ['iso-checksum', { ...REGISTER, 'iso-checksum': '' }],
    ['iso-url', { ...UPGRADE, 'iso-checksum': SHA }],
    ['arch', { ...REGISTER, arch: 's390x' }],
    ['min-cpu', { ...REGISTER, 'min-cpu': '0' }],
    ['min-memory', { ...REGISTER, 'min-memory': '2G' }],
    ['direct-download', { ...REGISTER, 'direct-download': 'yes' }],
    ['parallel', { ...UPGRADE, parallel: '-1' }],
    ['redeploy', { ...UPGRADE, redeploy: 'magic' }],
    ['autoscaler-manifest', { ...UPGRADE, redeploy: 'kubeconfig' }],
    ['register-timeout', { ...REGISTER, 'register-timeout': '1h' }],
    ['upgrade-timeout', { ...UPGRADE, 'upgrade-timeout': '0' }],
    ['redeploy-timeout', { ...UPGRADE, 'redeploy-timeout': '1.5' }],
    ['dry-run', { ...UPGRADE, 'dry-run': 'maybe' }],
    ['iso-url', CONNECTION],
  ])('%s', (name, values) => {
    expect(() => parse(values)).toThrow(Failure)
    expect(() => parse(values)).toThrow(name)
  })

  it('together with all others', () => {
    expect(() => parse({ ...UPGRADE, parallel: 'x', redeploy: 'y' })).toThrow(
      /2 inputs[\s\S]*parallel[\s\S]*redeploy/,
    )
  })

  it('without showing a secret', () => {
    const values = { ...UPGRADE, endpoint: 'https://me:the-secret-key@cloud.example/', parallel: 'x' }
    try {
      parse(values)
      expect.unreachable()
    } catch (thrown) {
      expect(String(thrown)).toContain('***@cloud.example')
      expect(String(thrown)).not.toMatch(/the-secret-key|the-api-key/)
    }
  })
})
