import { describe, expect, it } from 'vitest'
import { appliesHeadlamp } from '../../src/request/request.ts'
import { contractOf, matches, NODE_CONTRACTS } from '../../src/verify/contract.ts'

describe('the contract of a CloudStack release', () => {
  it.each([
    ['4.11', '4.0'],
    ['4.9', '4.0'],
    ['4.22', '4.0'],
    ['4.23', '4.23'],
    ['4.100', '4.23'],
    ['5.0', '4.23'],
  ])('of %s is that of the line since %s', (release, since) => {
    expect(contractOf(release).since).toBe(since)
  })

  it('agrees with the builder on the releases that apply headlamp.yaml', () => {
    for (const release of ['4.20', '4.22', '4.23', '4.24', '5.1']) {
      expect(contractOf(release).dashboardInstead !== undefined).toBe(appliesHeadlamp(release))
    }
  })

  it('lists the lines oldest first, each with the files that its scripts open', () => {
    expect(NODE_CONTRACTS.map(({ since }) => since)).toEqual(['4.0', '4.23'])
    for (const { files } of NODE_CONTRACTS) expect(files.map(({ path }) => path)).toContain('dashboard.yaml')
  })
})

describe('a pattern', () => {
  it.each([
    ['cni/cni-plugins-*64.tgz', 'cni/cni-plugins-amd64.tgz', true],
    ['cni/cni-plugins-*64.tgz', 'cni/cni-plugins-linux-arm64.tgz', true],
    ['cni/cni-plugins-*64.tgz', 'cni/cni-plugins-amd64.tgz.sha256', false],
    ['cni/cni-plugins-*64.tgz', 'cni/old/cni-plugins-amd64.tgz', false],
    ['*.yaml', 'network.yaml', true],
    ['*.yaml', 'networkxyaml', false],
    ['*.yaml', 'manifests/network.yaml', false],
  ])('%s meets %s: %s', (pattern, path, expected) => {
    expect(matches(pattern, path)).toBe(expected)
  })
})
