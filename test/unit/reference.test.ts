import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import {
  formatReference,
  hasFixedVersion,
  lastPathPart,
  lookupName,
  parseReference,
  repositoryOf,
  tryReference,
} from '../../src/images/reference.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`

describe('an image reference', () => {
  it.each([
    ['nginx', 'docker.io/library/nginx:latest'],
    ['traefik:1.7.12', 'docker.io/library/traefik:1.7.12'],
    ['weaveworks/weave-kube', 'docker.io/weaveworks/weave-kube:latest'],
    ['otel/opentelemetry-collector:0.1', 'docker.io/otel/opentelemetry-collector:0.1'],
    [
      'apache/cloudstack-kubernetes-autoscaler:latest',
      'docker.io/apache/cloudstack-kubernetes-autoscaler:latest',
    ],
    ['docker.io/nginx:1', 'docker.io/library/nginx:1'],
    ['index.docker.io/a/b:1', 'docker.io/a/b:1'],
    ['ghcr.io/a/b', 'ghcr.io/a/b:latest'],
    ['localhost/x:1', 'localhost/x:1'],
    ['Reg/x:1', 'Reg/x:1'],
    ['a__b/c-d.e--f:V_1', 'docker.io/a__b/c-d.e--f:V_1'],
  ])('%s is read as kubelet reads it: %s', (text, whole) => {
    const reference = parseReference(text, 'a manifest')
    expect(formatReference(reference)).toBe(whole)
    expect(formatReference(parseReference(whole, 'again'))).toBe(whole)
  })

  it.each([
    ['reg.local:5000/a/b', 'reg.local:5000', 'a/b', 'latest', undefined],
    ['reg.local:5000/a/b:v1', 'reg.local:5000', 'a/b', 'v1', undefined],
    ['reg:5000/x', 'reg:5000', 'x', 'latest', undefined],
    [`reg.local:5000/a/b@${DIGEST}`, 'reg.local:5000', 'a/b', undefined, DIGEST],
    [`reg:5000/a:v1@${DIGEST}`, 'reg:5000', 'a', 'v1', DIGEST],
    ['[2001:db8::1]:5000/a:v1', '[2001:db8::1]:5000', 'a', 'v1', undefined],
    ['reg:5000', 'docker.io', 'library/reg', '5000', undefined],
  ])('the port of %s is no tag', (text, domain, path, tag, digest) => {
    const reference = parseReference(text, 'a manifest')
    expect(reference).toEqual({
      domain,
      path,
      ...(tag === undefined ? {} : { tag }),
      ...(digest === undefined ? {} : { digest }),
    })
  })

  it.each([
    '',
    ' ',
    ' nginx',
    'nginx:1\n',
    'nginx:1\r',
    'nginx:',
    'nginx:1:2',
    'nginx@',
    'nginx@sha256:abc',
    `nginx@${DIGEST.toUpperCase()}`,
    `nginx@${DIGEST}@${DIGEST}`,
    'Nginx:1',
    'ghcr.io/',
    'ghcr.io/A/b:1',
    '/a/b:1',
    'a//b:1',
    'docker.io/*',
    '*.example.com/x:1',
    'https://ghcr.io/a/b:1',
    '{{ .Values.image }}',
    '$(IMAGE)',
    '<image>',
    '-a:1',
    'a_.b/c',
    `a:${'x'.repeat(129)}`,
    `ghcr.io/${'x'.repeat(256)}`,
    'f'.repeat(64),
  ])('%j is none', (text) => {
    expect(tryReference(text)).toBeUndefined()
    expect(() => parseReference(text, 'network.yaml')).toThrow(Failure)
    expect(() => parseReference(text, 'network.yaml')).toThrow('in network.yaml is no image reference')
  })

  it('is looked up by digest alone when it has one, since CRI drops the tag', () => {
    const pinned = parseReference(`quay.io/cilium/cilium:v1.18.0@${DIGEST}`, 'a manifest')
    expect(lookupName(pinned)).toBe(`quay.io/cilium/cilium@${DIGEST}`)
    expect(formatReference(pinned)).toBe(`quay.io/cilium/cilium:v1.18.0@${DIGEST}`)
    expect(lookupName(parseReference('nginx', 'a manifest'))).toBe('docker.io/library/nginx:latest')
  })

  it('names its repository and the last part of its path', () => {
    const reference = parseReference('reg.local:5000/a/b/c:v1', 'a manifest')
    expect(repositoryOf(reference)).toBe('reg.local:5000/a/b/c')
    expect(lastPathPart(reference)).toBe('c')
    expect(lastPathPart(parseReference('nginx', 'a manifest'))).toBe('nginx')
  })

  it.each([
    ['nginx:1.25', true],
    ['nginx:v3', true],
    [`nginx:latest@${DIGEST}`, true],
    ['nginx', false],
    ['nginx:latest', false],
    ['nginx:main', false],
  ])('%s has a fixed version: %s', (text, fixed) => {
    expect(hasFixedVersion(parseReference(text, 'a manifest'))).toBe(fixed)
  })
})
