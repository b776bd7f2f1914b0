import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { errorAt, findingOf, formatFindings, noticeAt } from '../../src/verify/finding.ts'

describe('findings as text', () => {
  it('puts errors first and counts both', () => {
    const text = formatFindings([
      noticeAt('versions.txt', 'is missing', 'because', 'add it'),
      errorAt('docker/x.tar', 'is empty', 'nodes import it', 'write it again'),
    ])
    expect(text).toBe(
      [
        'error   docker/x.tar: is empty',
        '    why     nodes import it',
        '    fix     write it again',
        'notice  versions.txt: is missing',
        '    why     because',
        '    fix     add it',
        '1 error, 1 notice',
        '',
      ].join('\n'),
    )
  })

  it('says so when there are none', () => {
    expect(formatFindings([])).toBe('Nothing was found that a node would stumble over.\n')
  })

  it('keeps what a foreign ISO says on its line, without control characters', () => {
    const text = formatFindings([errorAt('docker/a\n::error::b', 'x\r\u001b[2Jy', 'z', 'f')])
    expect(text).toContain('error   docker/a ::error::b: x [2Jy\n')
  })
})

describe('a finding of a failure', () => {
  it('takes its advice as the fix', () => {
    expect(findingOf(new Failure('it broke', 'mend it'), 'a.yaml', 'why')).toEqual({
      severity: 'error',
      where: 'a.yaml',
      what: 'it broke',
      why: 'why',
      fix: 'mend it',
    })
  })

  it('does not say twice where it is', () => {
    const finding = findingOf(new Failure('a.yaml: document 1, line 2: bad', 'mend it'), 'a.yaml', 'why')
    expect(finding.what).toBe('document 1, line 2: bad')
  })

  it('is none of a fault of ours', () => {
    expect(() => findingOf(new TypeError('bug'), 'a.yaml', 'why')).toThrow(TypeError)
  })
})
