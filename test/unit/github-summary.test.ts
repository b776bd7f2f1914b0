import { describe, expect, it } from 'vitest'
import { buildSummary, cell, type SummaryFacts } from '../../src/github/summary.ts'
import type { PulledImage } from '../../src/images/pull.ts'
import { formatKey } from '../../src/piece-cache.ts'

const SHA = 'ab'.repeat(32)

function image(reference: string): PulledImage {
  return {
    reference,
    names: [reference],
    digest: `sha256:${SHA}`,
    fileName: 'x.tar',
    path: '/x',
    size: 2_500_000,
  }
}

function facts(over: Partial<SummaryFacts> = {}, images = [image('registry.example/app:v1')]): SummaryFacts {
  return {
    result: {
      plan: {
        versions: { kubernetes: '1.33.4', autoscaler: '1.33.1', ccm: '1.2.0', network: 'calico@3.32.1' },
        arch: 'amd64',
        cloudstack: '4.22',
        name: 'setup-v1.33.4-x86_64',
        binaries: [],
        hostKubeadm: { what: 'kubeadm', input: 'kubernetes-version', source: { kind: 'text', text: '' } },
        manifests: [],
        extraImages: [],
      },
      images,
      isoPath: '/out/setup-v1.33.4-x86_64.iso',
      isoSize: 734_003_200,
      isoSha256: SHA,
      versionsPath: '/out/setup-v1.33.4-x86_64.versions.txt',
    },
    stages: [
      { name: 'downloads', start: 0, end: 4000 },
      { name: 'ISO', start: 6000, end: 8000 },
    ],
    lookups: [
      { name: 'https://dl.k8s.io/kubeadm', hit: true },
      { name: 'registry.example/app:v1', hit: false },
    ],
    warnings: [],
    ...over,
  }
}

describe('the job summary', () => {
  it('names the ISO, its checksum, the versions, the images, the times and the cache hits', () => {
    const text = buildSummary(facts({ warnings: ['mind the gap'] }))
    for (const part of [
      '## setup-v1.33.4-x86&#95;64.iso',
      '734.0 MB (734003200 bytes)',
      `<code>${SHA}</code>`,
      '| kubernetes | 1.33.4 |',
      '| network | calico&#64;3.32.1 |',
      `| registry.example/app:v1 | <code>sha256:${SHA}</code> | 2.5 MB |`,
      'Cache: 1 of 2 found',
      '| mind the gap |',
    ]) {
      expect(text).toContain(part)
    }
    expect(text).toContain(`| ISO | 2.0 s | ${'░'.repeat(30)}${'█'.repeat(10)} |`)
  })

  it('says nothing of a cache, of stages and of warnings where there are none', () => {
    const text = buildSummary(facts({ lookups: undefined, stages: [] }))
    expect(text).not.toMatch(/Cache|Stage|Warning/)
  })

  it('shows hostile text literally and on its own line', () => {
    const hostile =
      '</details><script>x</script>\n| a | b |\n::set-output name=x::y `$(id)` ![i](u) @all [l](u) &lt; \u001b[31m'
    const text = buildSummary(facts({ warnings: [hostile] }, [image(hostile)]))
    expect(text).not.toMatch(/<script|<\/script|!\[i\]|\]\(u\)|@all|^::/m)
    expect(text).not.toContain('\u001b')
    expect(text.match(/<\/details>/g)).toHaveLength(2)
    expect(cell(hostile)).not.toMatch(/[\n|<>`@$![\]]/)
  })

  it('stays far below 1 MiB and says how much it leaves out', () => {
    const images = Array.from({ length: 20_000 }, (_, index) => image(`registry.example/größe-${index}:v1`))
    const lookups = images.map(({ reference }) => ({ name: reference, hit: true }))
    const warnings = images.map(() => '|'.repeat(10_000))
    const text = buildSummary(facts({ lookups, warnings }, images))
    expect(Buffer.byteLength(text)).toBeLessThan(1_000_000)
    expect(text.match(/… and \d+ more\./g)).toHaveLength(3)
    expect(text.endsWith('</details>\n')).toBe(true)
  })
})

describe('the key of a cached piece', () => {
  const key = { kind: 'file', name: 'https://dl.k8s.io/release/v1.33.4/bin/kubeadm', facts: [SHA] } as const

  it('begins with what people know it by', () => {
    expect(formatKey(key)).toMatch(/^cks-iso-1-file-dl\.k8s\.io_release_v1\.33\.4_bin_kubeadm-[0-9a-f]{64}$/)
  })

  it('is within what GitHub allows, whatever the name holds', () => {
    const long = formatKey({ ...key, name: `https://x/${'a,b\n::x::'.repeat(500)}` })
    expect(long.length).toBeLessThanOrEqual(512)
    expect(long).toMatch(/^[A-Za-z0-9._-]+$/)
  })

  it('differs when a fact, the name or the kind does, also where the legible part is alike', () => {
    const keys = [
      key,
      { ...key, facts: ['cd'.repeat(32)] },
      { ...key, facts: [SHA, ''] },
      { ...key, name: `${key.name}?` },
      { ...key, name: `${key.name}!` },
      { ...key, kind: 'image-archive-1' as const },
    ]
    expect(new Set(keys.map(formatKey)).size).toBe(keys.length)
  })
})
