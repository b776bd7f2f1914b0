import { describe, expect, it } from 'vitest'
import { parseEpoch } from '../../src/request/epoch.ts'
import type { Lock } from '../../src/request/lock.ts'
import { mirroredUrl, parseMirrors, registryMirrors, requirePlainSource } from '../../src/request/mirrors.ts'
import { parseRequest } from '../../src/request/request.ts'
import type { SettingValues } from '../../src/request/settings.ts'
import { compareMinors, parseKubernetesVersion, parseVersion } from '../../src/request/version.ts'

const cwd = '/home/user'
const request = (values: SettingValues = {}, tag?: string) =>
  parseRequest({ 'kubernetes-version': '1.33.13', ...values }, { cwd, ...(tag === undefined ? {} : { tag }) })

describe('versions', () => {
  it.each([
    ['1.33.13', '1.33.13'],
    ['v1.33.13', '1.33.13'],
    ['V1.33.13', '1.33.13'],
    [' 1.33.13 ', '1.33.13'],
    ['refs/tags/v1.33.13', '1.33.13'],
    ['1.36.0-rc.1', '1.36.0-rc.1'],
  ])('reads %j as the release %s', (text, version) => {
    expect(parseKubernetesVersion(text)).toEqual({ kind: 'exact', version })
  })

  it.each(['1.33', 'v1.33', 'refs/tags/v1.33'])('reads %j as a minor', (text) => {
    expect(parseKubernetesVersion(text)).toEqual({ kind: 'minor', minor: '1.33' })
  })

  it.each([
    '1',
    'latest',
    '1.034.1',
    '1.33.13+k3s1',
    '1.33; rm -rf /',
    '$(id)',
    '--upload-pack=x',
    '1.33.13\n::set-output name=x::y',
    '../1.33.13',
    'refs/heads/v1.33.13',
  ])('refuses %j and names the input', (text) => {
    expect(() => parseKubernetesVersion(text)).toThrow(/kubernetes-version: .* is no Kubernetes version/)
  })

  it.each(['1.2', 'main', '1.2.3 ; id', '1.2.3/../..', '01.2.3', ''])(
    'refuses %j as an exact version',
    (text) => {
      expect(() => parseVersion('ccm-version', text)).toThrow(/Set ccm-version to a version/)
    },
  )

  it('takes pre-releases of add-ons', () => {
    expect(parseVersion('ccm-version', 'v1.3.0-rc1')).toBe('1.3.0-rc1')
  })

  it('compares minors as numbers', () => {
    expect(compareMinors('1.9', '1.10')).toBeLessThan(0)
    expect(compareMinors('1.18', '1.18')).toBe(0)
    expect(compareMinors('2.0', '1.99')).toBeGreaterThan(0)
  })
})

describe('a request', () => {
  it('has defaults for everything but the Kubernetes version', () => {
    expect(request()).toEqual({
      kubernetes: { kind: 'exact', version: '1.33.13' },
      network: { kind: 'add-on', name: 'calico', version: '3.32.1' },
      dashboard: { kind: 'add-on', name: 'kubernetes-dashboard', version: '2.7.0' },
      ccm: '1.2.0',
      csi: '3.0.0',
      arch: 'amd64',
      extraImages: [],
      outputDir: cwd,
      cloudstack: '4.22',
      mirrors: [],
      verify: true,
    })
  })

  it('takes blank values as absent', () => {
    expect(request({ arch: ' ', 'ccm-version': '', 'build-name': '' })).toEqual(request())
  })

  it('stands for the tag of the run when no version is given, and not otherwise', () => {
    const tag = 'refs/tags/v1.34.2'
    expect(request({ 'kubernetes-version': '' }, tag).kubernetes).toEqual({
      kind: 'exact',
      version: '1.34.2',
    })
    expect(request({}, tag).kubernetes).toEqual({ kind: 'exact', version: '1.33.13' })
  })

  it('refuses to guess a version without a tag', () => {
    expect(() => request({ 'kubernetes-version': '' })).toThrow(/kubernetes-version: empty/)
  })

  it('chooses Headlamp from CloudStack 4.23 on', () => {
    expect(request({ 'cloudstack-version': '4.23.0' }).dashboard).toMatchObject({ name: 'headlamp' })
    expect(request({ 'cloudstack-version': 'v4.22.1' }).dashboard).toMatchObject({
      name: 'kubernetes-dashboard',
    })
    expect(request({ 'cloudstack-version': '5.0' }).dashboard).toMatchObject({ name: 'headlamp' })
  })

  it.each([
    ['calico', { kind: 'add-on', name: 'calico', version: '3.32.1' }],
    ['flannel@v0.28.9', { kind: 'add-on', name: 'flannel', version: '0.28.9' }],
    ['https://example.org/cni.yaml', { kind: 'url', url: 'https://example.org/cni.yaml' }],
    ['http://127.0.0.1:8080/cni.yaml', { kind: 'url', url: 'http://127.0.0.1:8080/cni.yaml' }],
    ['./cni.yaml', { kind: 'file', path: '/home/user/cni.yaml' }],
    ['/srv/cni.yaml', { kind: 'file', path: '/srv/cni.yaml' }],
    ['file:///srv/cni.yaml', { kind: 'file', path: '/srv/cni.yaml' }],
  ])('reads the network %j', (network, expected) => {
    expect(request({ network }).network).toEqual(expected)
  })

  it.each([
    ['network', 'cilium'],
    ['network', 'https://up.example/a\nb.yaml'],
    ['output-dir', 'out\n::notice::forged'],
    ['network', 'none'],
    ['network', 'headlamp'],
    ['network', 'ftp://example.org/x.yaml'],
    ['dashboard', 'calico'],
    ['dashboard', 'headlamp@latest'],
    ['arch', 'riscv64'],
    ['cloudstack-version', '4'],
    ['build-name', '../evil'],
    ['build-name', '-rf'],
    ['build-name', 'a\nb'],
    ['extra-images', 'not an image'],
    ['etcd-version', '3.5'],
    ['mirrors', 'docker.io'],
  ] as const)('refuses %s=%j and names the input', (name, value) => {
    expect(() => request({ [name]: value })).toThrow(name)
  })

  it.each([
    ['network', 'https://robot:SECRET@up.example/x.yaml'],
    ['dashboard', 'https://SECRET@up.example/x.yaml'],
    ['mirrors', 'https://up.example https://robot:SECRET@mirror.example and more'],
    ['mirrors', 'docker.io https://robot:SECRET@mirror.example'],
  ] as const)('refuses a password in %s without telling it', (name, value) => {
    let message = ''
    try {
      request({ [name]: value })
    } catch (thrown) {
      message = String(thrown)
    }
    expect(message).toContain('user or password')
    expect(message).not.toContain('SECRET')
  })

  it('reports every bad input at once', () => {
    expect(() => request({ arch: 'mips', 'ccm-version': 'x', network: '?' })).toThrow(
      /3 inputs cannot be used\n(- .*\n?){3}/,
    )
  })

  it('reads extra images a line each, with comments', () => {
    expect(request({ 'extra-images': 'nginx:1.27 # web\n\n# none\r\nquay.io/a/b:1' }).extraImages).toEqual([
      'docker.io/library/nginx:1.27',
      'quay.io/a/b:1',
    ])
  })

  it.each([
    ['x86_64', 'amd64'],
    ['AMD64', 'amd64'],
    ['aarch64', 'arm64'],
    ['arm64', 'arm64'],
  ])('takes %s for %s', (text, arch) => {
    expect(request({ arch: text }).arch).toBe(arch)
  })
})

describe('mirrors', () => {
  const mirrors = parseMirrors(`
    # the office
    https://github.com http://10.0.0.5/github/
    https://github.com/kubernetes https://git.example/k8s
    docker.io https://mirror.example
    registry.k8s.io https://harbor.example/v2/k8s
  `)

  it('replaces the longest prefix that ends at a path boundary', () => {
    expect(mirroredUrl(mirrors, 'https://github.com/kubernetes/autoscaler')).toBe(
      'https://git.example/k8s/autoscaler',
    )
    expect(mirroredUrl(mirrors, 'https://github.com/etcd-io/etcd')).toBe(
      'http://10.0.0.5/github/etcd-io/etcd',
    )
    expect(mirroredUrl(mirrors, 'https://github.company.example/x')).toBe('https://github.company.example/x')
    expect(mirroredUrl(mirrors, 'https://github.com/kubernetes-sigs/x')).toBe(
      'http://10.0.0.5/github/kubernetes-sigs/x',
    )
  })

  it('tells a registry with and without a path of its own', () => {
    expect(registryMirrors(mirrors)).toEqual([
      { host: 'docker.io', base: 'https://mirror.example', overridePath: false },
      { host: 'registry.k8s.io', base: 'https://harbor.example/v2/k8s', overridePath: true },
    ])
  })

  it.each([
    ['https://a.example', 'two words'],
    ['https://a.example https://b.example https://c.example', 'two words'],
    ['ftp://a.example https://b.example', 'neither an https URL nor a registry host'],
    ['docker.io mirror.example', 'no http or https URL'],
    ['docker.io https://a.example\ndocker.io https://b.example', 'line 2.*has a mirror already'],
    ['-o https://a.example', 'neither'],
  ])('refuses %j', (text, why) => {
    expect(() => parseMirrors(text)).toThrow(new RegExp(why))
  })
})

describe('SOURCE_DATE_EPOCH', () => {
  it('is whole seconds, or absent', () => {
    expect(parseEpoch('1700000000')).toEqual({ epoch: 1_700_000_000 })
    expect(parseEpoch('')).toEqual({})
    expect(parseEpoch(undefined)).toEqual({})
  })

  it.each(['abc', '-1', '1.5', '1e9', '0', '9999999999'])('refuses %j', (text) => {
    expect(() => parseEpoch(text)).toThrow('SOURCE_DATE_EPOCH')
  })
})

it('shows no password of a source, whatever else is wrong with it', () => {
  const about = { input: 'lock', what: 'versions.txt', kinds: 'path or URL' }
  expect(() => requirePlainSource('https://me:secret@x.example/v\n', about)).toThrow(
    /^lock: the URL holds a user or password \(not shown here\)\n.*path of the file\.$/,
  )
})

describe('a request with a lock', () => {
  const lock: Lock = {
    name: 'old.txt',
    record: {
      platform: 'linux/arm64',
      cloudstack: '4.23',
      epoch: 1,
      versions: {
        kubernetes: '1.32.1',
        'cni-plugins': '1.5.0',
        etcd: '3.5.21',
        network: 'flannel@0.26.0',
        dashboard: 'none',
      },
      files: [],
      images: [],
    },
  }
  const locked = (values: SettingValues, tag?: string) =>
    parseRequest(values, { cwd, lock, ...(tag === undefined ? {} : { tag }) })

  it('takes what is left empty from it, before a tag and the defaults', () => {
    expect(locked({ arch: ' ' }, 'refs/tags/v1.34.0')).toMatchObject({
      kubernetes: { kind: 'exact', version: '1.32.1' },
      cni: '1.5.0',
      etcd: '3.5.21',
      network: { kind: 'add-on', name: 'flannel', version: '0.26.0' },
      dashboard: { kind: 'none' },
      arch: 'arm64',
      cloudstack: '4.23',
      ccm: '1.2.0',
      lock,
    })
  })

  it('lets the user say otherwise, for the plan to find', () => {
    expect(locked({ arch: 'amd64', network: 'calico' })).toMatchObject({
      arch: 'amd64',
      network: { name: 'calico' },
    })
  })
})
