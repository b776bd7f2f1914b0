import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseRefs } from '../../src/fetch/git.ts'
import { newestOfMinor, newestUpToMinor, releasesOf } from '../../src/plan/releases.ts'
import { assemblePlan } from '../../src/plan/resolve.ts'
import { parseRequest } from '../../src/request/request.ts'
import type { SettingValues } from '../../src/request/settings.ts'
import { corpusDir } from '../corpus.ts'

const PREFIX = 'refs/tags/cluster-autoscaler-'
const refs = (...names: string[]) =>
  names.map((name) => ({ name: `refs/tags/${name}`, commit: '0'.repeat(40) }))
const resolved = {
  kubernetes: '1.33.13',
  autoscaler: '1.33.6',
  cni: '1.7.1',
  crictl: '1.33.0',
  unitCommit: 'c0ffee',
}
const plan = (values: SettingValues = {}, host: 'amd64' | 'arm64' = 'amd64') =>
  assemblePlan(parseRequest({ 'kubernetes-version': '1.33.13', ...values }, { cwd: '/' }), resolved, host)

describe('the releases among tags', () => {
  it('are sorted as numbers, without pre-releases and other prefixes', () => {
    const tags = refs(
      'cluster-autoscaler-1.33.9',
      'cluster-autoscaler-1.33.10',
      'cluster-autoscaler-1.33.11-beta.1',
      'cluster-autoscaler-chart-9.50.1',
      'vertical-pod-autoscaler/v1.4.1',
      'cluster-autoscaler-1.9.9',
      'cluster-autoscaler-1.033.99',
    )
    expect(releasesOf(tags, PREFIX)).toEqual(['1.33.10', '1.33.9', '1.9.9'])
  })

  it('are found by minor, or by the nearest lower minor', () => {
    const releases = ['1.34.1', '1.33.10', '1.33.9', '1.9.9']
    expect(newestOfMinor(releases, '1.33')).toBe('1.33.10')
    expect(newestOfMinor(releases, '1.35')).toBeUndefined()
    expect(newestUpToMinor(releases, '1.35')).toBe('1.34.1')
    expect(newestUpToMinor(releases, '1.32')).toBe('1.9.9')
    expect(newestUpToMinor(releases, '1.8')).toBeUndefined()
  })
})

describe.skipIf(corpusDir === undefined)('the real tag lists', () => {
  const read = (path: string) => parseRefs(readFileSync(join(corpusDir ?? '', 'git', path), 'utf8'))

  it.each([
    ['1.31', '1.31.5'],
    ['1.33', '1.33.6'],
    ['1.36', '1.36.1'],
    ['1.20', '1.20.3'],
    ['1.37', undefined],
    ['1.99', undefined],
  ])('give for Kubernetes %s the autoscaler %s', (minor, version) => {
    expect(newestOfMinor(releasesOf(read('kubernetes/autoscaler.refs'), PREFIX), minor)).toBe(version)
  })

  it('give the releases of the cloud controller manager without release candidates', () => {
    const releases = releasesOf(read('apache/cloudstack-kubernetes-provider.refs'), 'refs/tags/v')
    expect(releases).toEqual(['1.2.0', '1.1.1', '1.1.0', '1.0.0'])
  })
})

describe('a plan', () => {
  it('names every file under the path that node scripts open', () => {
    expect(plan().binaries.flatMap(({ paths }) => paths)).toEqual([
      'k8s/kubeadm',
      'k8s/kubelet',
      'k8s/kubectl',
      'cni/cni-plugins-amd64.tgz',
      'cri-tools/crictl-linux-amd64.tar.gz',
      'kubelet.service',
      '10-kubeadm.conf',
    ])
    expect(plan().name).toBe('setup-v1.33.13-x86_64')
    expect(plan().versions).not.toHaveProperty('etcd')
  })

  it('carries etcd for arm64 under both names that nodes ask for', () => {
    const { binaries, name, hostKubeadm } = plan({
      'etcd-version': '3.5.21',
      arch: 'aarch64',
      'build-name': 'cks',
    })
    expect(binaries.flatMap(({ paths }) => paths)).toEqual(
      expect.arrayContaining(['etcd/etcd-linux-arm64.tar.gz', 'etcd/etcd-linux-amd64.tar.gz']),
    )
    expect(name).toBe('cks-aarch64')
    expect(hostKubeadm.source).toMatchObject({
      candidates: [{ url: 'https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubeadm' }],
    })
  })

  it('takes the URLs that upstream publishes under', () => {
    const { binaries, manifests } = plan({
      'etcd-version': 'v3.5.21',
      dashboard: 'headlamp',
      network: 'flannel@0.26.1',
    })
    const urls = [...binaries, ...manifests].flatMap(({ source }) =>
      source.kind === 'url' ? source.candidates.map(({ url }) => url) : [],
    )
    expect(urls).toMatchSnapshot()
  })

  it('takes the units of Kubernetes before 1.18 from Kubernetes itself', () => {
    const request = parseRequest({ 'kubernetes-version': '1.17.4' }, { cwd: '/' })
    const old = assemblePlan(request, { ...resolved, kubernetes: '1.17.4' }, 'amd64')
    expect(old.binaries.find(({ what }) => what === 'kubelet.service')?.source).toMatchObject({
      candidates: [
        { url: 'https://raw.githubusercontent.com/kubernetes/kubernetes/v1.17.4/build/debs/kubelet.service' },
      ],
    })
  })
})
