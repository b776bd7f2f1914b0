import { describe, expect, it } from 'vitest'
import { escaped, summaryOf } from '../../src/cloudstack/summary.ts'

describe('the summary', () => {
  const report = {
    cluster: 'prod',
    id: 'id-1',
    from: '1.32.14',
    to: '1.33.13',
    result: 'upgraded' as const,
    note: '',
    autoscalerBefore: 'sizes 2–5',
    autoscalerAfter: 'redeployed, sizes 2–5',
  }

  it('is a table of clusters', () => {
    expect(summaryOf([], [report], [])).toBe(
      [
        '### Clusters',
        '',
        '| Cluster | From | To | Result | Autoscaler before | Autoscaler after | Note |',
        '| --- | --- | --- | --- | --- | --- | --- |',
        '| prod | 1.32.14 | 1.33.13 | upgraded | sizes 2–5 | redeployed, sizes 2–5 |  |',
        '',
      ].join('\n'),
    )
  })

  it('begins with what a human has to do', () => {
    const summary = summaryOf([], [{ ...report, warning: 'cluster prod: look here' }], ['1 of 2 failed'])
    expect(summary).toMatch(
      /^### Needs your attention\n\n- 1 of 2 failed\n- cluster prod: look here\n\n### Clusters/,
    )
  })

  it('lists what was registered, a line a zone', () => {
    const zone = { id: 'z', name: 'zone-1' }
    const registered = [
      { zone, name: 'v1.33.13', id: 'v-1', outcome: 'registered' as const },
      { zone: undefined, name: 'v1.33.13', id: undefined, outcome: 'would register' as const },
    ]
    const summary = summaryOf(registered, [], [])
    expect(summary).toContain('| zone-1 | v1.33.13 | v-1 | registered |')
    expect(summary).toContain('| all zones | v1.33.13 |  | would register |')
  })

  it('shows text of the API literally: no Markdown, HTML or table cell comes from it', () => {
    expect(escaped('a|b\n## c [x](http://e) <img src=x> `d` @all &amp; *e* _f_ x86_64')).toBe(
      'a\\|b \\#\\# c \\[x\\](http://e) \\<img src=x\\> \\`d\\` \\@all \\&amp; \\*e\\* \\_f\\_ x86_64',
    )
  })
})
