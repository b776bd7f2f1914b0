import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { readVersion } from '../../src/images/containerd.ts'
import { ctrError, isPassing } from '../../src/images/fetch.ts'
import { writeHosts } from '../../src/images/hosts.ts'
import { parseMirrors, registryMirrors } from '../../src/request/mirrors.ts'

describe('the release of containerd', () => {
  it.each([
    ['containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3', 1, '1.6.20~ds1'],
    ['containerd github.com/containerd/containerd 1.7.28 ', 1, '1.7.28'],
    ['containerd containerd.io v1.7.29 442cb34bda9a6a0fed82a2ca7cade05c5c749582', 1, '1.7.29'],
    ['ctr github.com/containerd/containerd/v2 2.4.2+unknown', 2, '2.4.2+unknown'],
    ['ctr github.com/containerd/containerd/v2 v2.2.0-rc.1', 2, '2.2.0-rc.1'],
  ])('is read from %j', (output, major, text) => {
    expect(readVersion('ctr', `${output}\n`)).toEqual({ major, text })
  })

  it.each([
    'ctr github.com/containerd/containerd/v3 3.0.0',
    'ctr github.com/containerd/containerd 1.5.9',
    'ctr github.com/containerd/containerd/v2 12.0.0',
    'ctr version unknown',
    '',
  ])('is refused in %j', (output) => {
    expect(() => readVersion('/opt/ctr', output)).toThrow(Failure)
    expect(() => readVersion('/opt/ctr', output)).toThrow('/opt/ctr is of an unknown release')
  })
})

describe('an error of ctr', () => {
  it.each([
    'failed to resolve reference "a/b:v1": pulling from host a failed with status code [manifests v1]: 503 Service Unavailable',
    'unexpected status from HEAD request to https://a/v2/b/manifests/v1: 429 Too Many Requests',
    'failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://a/v2/b": EOF',
    'failed to copy: unexpected EOF',
    'failed to do request: Head "https://a/v2/": net/http: TLS handshake timeout',
    'failed to do request: Head "https://a/v2/": dial tcp 192.0.2.1:443: i/o timeout',
    'failed to do request: Head "https://a/v2/": dial tcp: lookup a on 192.0.2.53:53: server misbehaving',
    'read tcp 192.0.2.2:1->192.0.2.1:443: read: connection reset by peer',
    'failed to copy: stream error: stream ID 5; INTERNAL_ERROR; received from peer',
    'failed size validation: 100 != 200: failed precondition',
  ])('may pass: %s', (error) => {
    expect(isPassing(error)).toBe(true)
  })

  it.each([
    'failed to resolve reference "quay.io/a/b:v500": quay.io/a/b:v500: not found',
    'pulling from host quay.io failed with status code [manifests v1]: 401 Unauthorized',
    'unexpected status from HEAD request to https://a/v2/b/manifests/502: 403 Forbidden',
    'pull access denied, repository does not exist or may require authorization: insufficient_scope',
    'failed to do request: Head "https://a/v2/": dial tcp: lookup a on 192.0.2.53:53: no such host',
    'failed to do request: Head "https://a/v2/": tls: failed to verify certificate: x509: unknown authority',
    'write /x: no space left on device',
  ])('stays: %s', (error) => {
    expect(isPassing(error)).toBe(false)
  })

  it('is its last word, below its debug lines', () => {
    const stderr = 'time="2026" level=debug msg="a" error="b"\nctr: failed: not found\n'
    expect(ctrError({ exitCode: 1, stdout: '', stderr })).toBe('failed: not found')
    expect(ctrError({ exitCode: 1, stdout: 'usage\n', stderr: '' })).toBe('usage')
    expect(ctrError({ exitCode: 1, stdout: '', stderr: '' })).toBe('no output')
  })
})

describe('the hosts files', () => {
  it('put each mirror in the place of its registry', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'hosts-'))
    try {
      const mirrors = parseMirrors(
        [
          'docker.io https://harbor.example/v2/dockerhub',
          'reg.example:5000 http://127.0.0.1:5000',
          'https://dl.k8s.io https://files.example',
        ].join('\n'),
      )
      await writeHosts(join(dir, 'hosts'), registryMirrors(mirrors))
      expect((await readdir(join(dir, 'hosts'))).toSorted()).toEqual(['docker.io', 'reg.example:5000'])
      expect(await readFile(join(dir, 'hosts/docker.io/hosts.toml'), 'utf8')).toBe(
        'server = "https://harbor.example/v2/dockerhub"\ncapabilities = ["pull", "resolve"]\noverride_path = true\n[host]\n',
      )
      expect(await readFile(join(dir, 'hosts/reg.example:5000/hosts.toml'), 'utf8')).toContain(
        'server = "http://127.0.0.1:5000"\ncapabilities = ["pull", "resolve"]\noverride_path = false\n',
      )
    } finally {
      await rm(dir, { recursive: true })
    }
  })
})
