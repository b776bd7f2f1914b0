import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { matrixActionYml } from '../../scripts/metadata.ts'
import { matrixSummary } from '../../src/github/matrix-summary.ts'
import { planMatrix, standsFor } from '../../src/matrix/plan.ts'
import { parseMatrixRequest } from '../../src/matrix/request.ts'
import { MATRIX_OUTPUTS, MATRIX_SETTINGS } from '../../src/matrix/settings.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('matrix/action.yml says what the settings say', () => {
  expect(read('matrix/action.yml')).toBe(matrixActionYml())
  const action = parse(read('matrix/action.yml'))
  expect(Object.keys(action.inputs)).toEqual(MATRIX_SETTINGS.map(({ name }) => name))
  expect(Object.keys(action.outputs)).toEqual(MATRIX_OUTPUTS.map(({ name }) => name))
})

describe('the request for a matrix', () => {
  it('asks for the three newest minors for amd64 when nothing is set', () => {
    expect(parseMatrixRequest({ minors: ' ', arch: '' })).toEqual({
      minors: { kind: 'newest', count: 3 },
      archs: ['amd64'],
      released: [],
      repositories: [],
      includePrereleases: false,
      mirrors: [],
    })
  })

  it('reads lists, ranges and both, each minor once', () => {
    const minorsOf = (minors: string) => parseMatrixRequest({ minors }).minors
    expect(minorsOf('1.31-1.34')).toEqual({ kind: 'listed', minors: ['1.31', '1.32', '1.33', '1.34'] })
    expect(minorsOf('1.9-1.10, v1.33\n1.10')).toEqual({ kind: 'listed', minors: ['1.9', '1.10', '1.33'] })
  })

  it('reads an exact version, as a tag has it, for itself', () => {
    expect(parseMatrixRequest({ minors: 'v1.33.4 1.34 1.35.0-rc.1' }).minors).toEqual({
      kind: 'listed',
      minors: ['1.33.4', '1.34', '1.35.0-rc.1'],
    })
  })

  it('reads architectures in every spelling, and tells names from repositories', () => {
    expect(
      parseMatrixRequest({
        arch: 'x86_64, arm64\namd64',
        released: 'v1.33.4\n\n  https://github.com/owner/isos\nsetup-v1.32.1-aarch64.iso',
        'include-prereleases': 'True',
      }),
    ).toMatchObject({
      archs: ['amd64', 'arm64'],
      released: ['v1.33.4', 'setup-v1.32.1-aarch64.iso'],
      repositories: ['https://github.com/owner/isos'],
      includePrereleases: true,
    })
  })

  it.each([
    ['minors', '1'],
    ['minors', '1.33.4.5'],
    ['minors', '1.34-1.31'],
    ['minors', '1.31-2.34'],
    ['minors', '1.0-1.9999999'],
    ['minors', '1.0-1.60 2.0-2.60'],
    ['minors', '$(id)'],
    ['newest', '0'],
    ['newest', '-1'],
    ['newest', '1e3'],
    ['arch', 'riscv64'],
    ['released', '--upload-pack=x://y'],
    ['released', 'ssh://git@host/x'],
    ['include-prereleases', 'yes'],
  ])('refuses %s: %s, and names the input', (name, value) => {
    expect(() => parseMatrixRequest({ [name]: value })).toThrow(new RegExp(`^${name}: `))
  })
})

describe('the plan of a matrix', () => {
  const facts = {
    minors: [
      { minor: '1.34', newest: '1.34.2' },
      { minor: '1.33', newest: '1.33.13' },
    ],
    archs: ['amd64', 'arm64'],
    autoscalers: ['1.34.10', '1.33.6'],
    released: [],
  } as const

  it('has a job for each version and architecture, in the order of the minors', () => {
    expect(planMatrix(facts)).toEqual({
      include: ['1.34.2', '1.33.13'].flatMap((version) =>
        ['amd64', 'arm64'].map((arch) => ({
          'kubernetes-version': version,
          arch,
          'autoscaler-version': '',
        })),
      ),
      skipped: [],
    })
  })

  it('skips what is released, by tag for all architectures and by file name for its own', () => {
    const { include, skipped } = planMatrix({
      ...facts,
      released: ['v1.34.2', 'setup-v1.33.13-aarch64.iso'],
    })
    expect(include).toEqual([{ 'kubernetes-version': '1.33.13', arch: 'amd64', 'autoscaler-version': '' }])
    expect(skipped.map(({ version, arch, reason }) => [version, arch, reason])).toEqual([
      ['1.34.2', 'amd64', 'already released: v1.34.2'],
      ['1.34.2', 'arm64', 'already released: v1.34.2'],
      ['1.33.13', 'arm64', 'already released: setup-v1.33.13-aarch64.iso'],
    ])
  })

  it('skips a minor without a release, and one that has no autoscaler yet', () => {
    const minors = [
      { minor: '1.99', newest: undefined },
      { minor: '1.37', newest: '1.37.0' },
    ]
    expect(planMatrix({ ...facts, archs: ['amd64'], minors })).toEqual({
      include: [],
      skipped: [
        { version: '1.99', arch: 'amd64', reason: 'Kubernetes 1.99 has no release' },
        { version: '1.37.0', arch: 'amd64', reason: 'no cluster-autoscaler for 1.37 yet' },
      ],
    })
  })

  it('builds a pre-release with the autoscaler of the nearest lower minor', () => {
    const minors = [{ minor: '1.35', newest: '1.35.0-rc.1' }]
    expect(planMatrix({ ...facts, archs: ['amd64'], minors }).include).toEqual([
      { 'kubernetes-version': '1.35.0-rc.1', arch: 'amd64', 'autoscaler-version': '1.34.10' },
    ])
    expect(planMatrix({ ...facts, archs: ['amd64'], minors, autoscalers: [] }).include).toEqual([])
  })

  it.each([
    ['1.33.1', 'v1.33.1'],
    ['1.33.1', 'release/1.33.1'],
    ['1.33.1', 'setup-v1.33.1-x86_64.iso'],
    ['1.33.1', 'setup-1.33.1-calico'],
    ['1.33.1', 'iso1.33.1.iso'],
    ['1.34.0-rc.1', 'v1.34.0-rc.1'],
  ])('takes %s for released by %s', (version, name) => {
    expect(standsFor(name, version, 'amd64')).toBe(true)
  })

  it.each([
    ['1.33.1', 'v1.33.10'],
    ['1.33.1', 'v11.33.1'],
    ['1.33.1', 'v0.1.33.1'],
    ['1.33.1', 'v1.33.1.2'],
    ['1.33.1', 'v1.33.1-rc.0'],
    ['1.33.1', 'v1x33x1'],
    ['1.33.1', 'setup-v1.33.1-aarch64.iso'],
    ['1.34.0-rc.1', 'v1.34.0-rc.10'],
    ['1.34.0-rc.1', 'v1.34.0'],
  ])('does not take %s for released by %s', (version, name) => {
    expect(standsFor(name, version, 'amd64')).toBe(false)
  })
})

describe('the summary of a matrix', () => {
  it('tells what is built and why the rest is not, hostile names shown literally', () => {
    const text = matrixSummary({
      include: [{ 'kubernetes-version': '1.34.2', arch: 'amd64', 'autoscaler-version': '' }],
      skipped: [{ version: '1.33.1', arch: 'arm64', reason: 'already released: v1.33.1|<script>`x`\n::y' }],
    })
    expect(text).toContain('| 1.34.2 | amd64 | built |')
    expect(text).toContain('skipped: already released: v1.33.1&#124;&#60;script&#62;&#96;x&#96; ::y |')
  })

  it('says so when nothing is to be built', () => {
    expect(matrixSummary({ include: [], skipped: [] })).toContain('Nothing to build')
  })
})
