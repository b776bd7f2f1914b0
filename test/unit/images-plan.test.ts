import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { contestedTags, planImages } from '../../src/images/plan.ts'

const D1 = `sha256:${'1'.repeat(64)}`
const D2 = `sha256:${'2'.repeat(64)}`

function plan(references: readonly string[], tagDigests?: ReadonlyMap<string, string>) {
  return planImages(
    references.map((reference, index) => ({ reference, source: `source ${index + 1}` })),
    tagDigests,
  )
}

describe('the plan of images', () => {
  it('names an image as nodes do', () => {
    expect(plan(['nginx:1.29'])).toEqual([
      {
        reference: 'docker.io/library/nginx:1.29',
        fetch: 'docker.io/library/nginx:1.29',
        names: ['docker.io/library/nginx:1.29'],
        fileName: 'nginx:1.29.tar',
        sources: ['source 1'],
      },
    ])
  })

  it('holds an image once, however it is spelled, with everyone who asks for it', () => {
    const planned = plan([
      'nginx',
      'docker.io/nginx:latest',
      'quay.io/a/b:v1',
      'index.docker.io/library/nginx',
    ])
    expect(planned.map(({ reference }) => reference)).toEqual([
      'docker.io/library/nginx:latest',
      'quay.io/a/b:v1',
    ])
    expect(planned[0]?.sources).toEqual(['source 1', 'source 2', 'source 4'])
  })

  it('gives an image pinned by tag and digest both as names, and fetches it by its digest', () => {
    expect(plan([`quay.io/a/b:v1@${D1}`])).toEqual([
      {
        reference: `quay.io/a/b:v1@${D1}`,
        fetch: `quay.io/a/b@${D1}`,
        names: [`quay.io/a/b@${D1}`, 'quay.io/a/b:v1'],
        digest: D1,
        fileName: 'b:v1.tar',
        sources: ['source 1'],
      },
    ])
  })

  it('gives an image pinned by digest alone that name alone', () => {
    expect(plan([`quay.io/a/b@${D1}`])).toMatchObject([
      { reference: `quay.io/a/b@${D1}`, names: [`quay.io/a/b@${D1}`], fileName: 'b@111111111111.tar' },
    ])
  })

  it('takes one digest under several tags, or none, for one image', () => {
    expect(plan([`quay.io/a/b@${D1}`, `quay.io/a/b:v1@${D1}`, `quay.io/a/b:v1.0@${D1}`])).toMatchObject([
      {
        reference: `quay.io/a/b:v1@${D1}`,
        names: [`quay.io/a/b@${D1}`, 'quay.io/a/b:v1', 'quay.io/a/b:v1.0'],
        sources: ['source 1', 'source 2', 'source 3'],
      },
    ])
  })

  it('leaves a tag to the image that is asked for by that tag', () => {
    const planned = plan([`quay.io/a/b:v1@${D1}`, 'quay.io/a/b:v1'])
    expect(planned.map(({ names }) => names)).toEqual([[`quay.io/a/b@${D1}`], ['quay.io/a/b:v1']])
    expect(new Set(planned.map(({ fileName }) => fileName)).size).toBe(2)
  })

  it('gives a tag to neither of two digests that claim it', () => {
    const planned = plan([`quay.io/a/b:v1@${D1}`, `quay.io/a/b:v1@${D2}`])
    expect(planned.map(({ names }) => names)).toEqual([[`quay.io/a/b@${D1}`], [`quay.io/a/b@${D2}`]])
  })

  it('makes one image of a tag and the digest that it points at', () => {
    const known = new Map([['quay.io/a/b:v1', D1]])
    expect(plan(['quay.io/a/b:v1', `quay.io/a/b:v1@${D1}`], known)).toMatchObject([
      { reference: `quay.io/a/b:v1@${D1}`, names: [`quay.io/a/b@${D1}`, 'quay.io/a/b:v1'] },
    ])
    const three = plan([`quay.io/a/b:v1@${D2}`, `quay.io/a/b:v1@${D1}`, 'quay.io/a/b:v1'], known)
    expect(three.map(({ names }) => names)).toEqual([
      [`quay.io/a/b@${D2}`],
      [`quay.io/a/b@${D1}`, 'quay.io/a/b:v1'],
    ])
  })

  it('does not pin a tag because its digest happens to be known', () => {
    const known = new Map([['quay.io/a/b:v1', D1]])
    expect(plan(['quay.io/a/b:v1'], known)).toMatchObject([{ fetch: 'quay.io/a/b:v1' }])
  })

  it('keeps images of the same name from different registries apart', () => {
    const planned = plan(['quay.io/a/node:v1', 'docker.io/b/node:v1', 'ghcr.io/c/node:v2'])
    const names = planned.map(({ fileName }) => fileName)
    expect(names[0]).toMatch(/^node:v1@[0-9a-f]{12}\.tar$/)
    expect(names[1]).toMatch(/^node:v1@[0-9a-f]{12}\.tar$/)
    expect(names[0]).not.toBe(names[1])
    expect(names[2]).toBe('node:v2.tar')
  })

  it('names the source of a text that is no reference', () => {
    expect(() => plan(['quay.io/a/b:v1', '{{ image }}'])).toThrow('"{{ image }}" in source 2')
  })
})

describe('the pause image', () => {
  it('may be asked for several times', () => {
    expect(plan(['registry.k8s.io/pause:3.10', 'registry.k8s.io/pause:3.10'])).toHaveLength(1)
  })

  it.each([
    'registry.k8s.io/pause:3.9',
    'quay.io/someone/pause-tools:v1',
    'pause.example/x:v1',
    'quay.io/a/b:pause',
  ])('is the only one with that word in its reference: not %s as well', (other) => {
    const planning = () => plan(['registry.k8s.io/pause:3.10', 'quay.io/a/b:v1', other])
    expect(planning).toThrow(Failure)
    expect(planning).toThrow(`registry.k8s.io/pause:3.10 (source 1) and ${other} (source 3)`)
  })

  it.each([`registry.k8s.io/pause:3.10@${D1}`, `registry.k8s.io/pause@${D1}`])(
    'goes by its tag alone: not as %s',
    (pinned) => {
      expect(() => plan([pinned])).toThrow(`The pause image is pinned by digest: ${pinned} (source 1)`)
    },
  )
})

describe('contested tags', () => {
  it('are those asked for both alone and beside a digest', () => {
    const wanted = [
      'quay.io/a/b:v1',
      `quay.io/a/b:v1@${D1}`,
      'quay.io/a/b:v2',
      `quay.io/a/b@${D1}`,
      `quay.io/a/c:v1@${D1}`,
      'nginx',
      `docker.io/library/nginx:latest@${D2}`,
    ].map((reference) => ({ reference, source: 'a manifest' }))
    expect(contestedTags(wanted)).toEqual(['quay.io/a/b:v1', 'docker.io/library/nginx:latest'])
  })
})
