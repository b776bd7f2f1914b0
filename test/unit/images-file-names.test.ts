import { describe, expect, it } from 'vitest'
import { fileNames } from '../../src/images/file-names.ts'
import { parseReference } from '../../src/images/reference.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`

function names(...references: readonly string[]): readonly string[] {
  return fileNames(references.map((reference) => parseReference(reference, 'a test')))
}

describe('the names of archives', () => {
  it('are the last part of the path and the tag', () => {
    expect(names('registry.k8s.io/coredns/coredns:v1.12.0', 'nginx', `quay.io/a/b:v1@${DIGEST}`)).toEqual([
      'coredns:v1.12.0.tar',
      'nginx:latest.tar',
      'b:v1.tar',
    ])
  })

  it('shorten a digest', () => {
    expect(names(`quay.io/a/operator-generic@${DIGEST}`)).toEqual(['operator-generic@0123456789ab.tar'])
  })

  it.each([
    [['quay.io/a/node:v1', 'docker.io/b/node:v1', 'ghcr.io/c/node:v1']],
    [['quay.io/a/b:v1', `quay.io/a/b:v1@${DIGEST}`]],
    [['quay.io/a/b:V1', 'quay.io/c/b:v1']],
    [['quay.io/a/x:y_1', 'quay.io/a/x_y:1']],
    [[`quay.io/a/b:${'x'.repeat(100)}1`, `quay.io/a/b:${'x'.repeat(100)}2`]],
    [[`quay.io/a/${'b'.repeat(100)}:1`]],
    [[`quay.io/${'b'.repeat(100)}@${DIGEST}`, `quay.io/a/${'b'.repeat(100)}@${DIGEST}`]],
  ])('stay short and distinct, whatever reader the ISO meets: %j', (references) => {
    const all = names(...references)
    expect(new Set(all.map((name) => name.toLowerCase().replaceAll(':', '_'))).size).toBe(references.length)
    for (const name of all) {
      expect(name.length).toBeLessThanOrEqual(64)
      expect(name).toMatch(/@[0-9a-f]{12}\.tar$/)
    }
    expect(names(...references.toReversed()).toReversed()).toEqual(all)
  })

  it('keep a name of just 64 characters', () => {
    const tag = 'x'.repeat(58)
    expect(names(`a:${tag}`)).toEqual([`a:${tag}.tar`])
    expect(names(`a:${tag}y`)[0]).toMatch(/^a:x{45}@[0-9a-f]{12}\.tar$/)
  })
})
