import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { imagesOf } from '../../src/manifests/images.ts'
import { objectsOf } from '../../src/manifests/objects.ts'
import { type Manifest, parseManifest } from '../../src/manifests/parse.ts'

const POD = `apiVersion: v1
kind: Pod
metadata:
  name: first
spec:
  containers:
    - name: a
      image: ghcr.io/a/one:1
`
const CONFIG = `apiVersion: v1
kind: ConfigMap
metadata:
  name: second
`

const parse = (text: string): Manifest => parseManifest(text, 'network.yaml')
const names = (text: string): readonly string[] => objectsOf(parse(text)).map(({ name }) => name)

describe('what is no manifest', () => {
  it.each([
    ['an HTML page', '<!DOCTYPE html>\n<html><body>Sign in</body></html>', 'HTML or XML'],
    ['an XML error', '\uFEFF<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', 'HTML or XML'],
    ['a bare tag', '  <html>\n', 'HTML or XML'],
    ['nothing', '', 'no Kubernetes object'],
    ['blank lines', '\n \n', 'no Kubernetes object'],
    ['comments alone', '# nothing here\n---\n# nor here\n', 'no Kubernetes object'],
    ['an empty List', 'apiVersion: v1\nkind: List\nitems: []\n', 'no Kubernetes object'],
    ['a text page', '404: Not Found', 'it begins "404: Not Found"'],
    ['a scalar', 'Not Found\n', 'it begins "Not Found"'],
    ['a sequence', '- a\n- b\n', 'document 1, line 1: no Kubernetes object'],
    [
      'a map without kind',
      `${POD}---\n# c\napiVersion: v1\nname: x\n`,
      'document 2, line 11: no Kubernetes object',
    ],
    ['a kind that is no string', 'apiVersion: v1\nkind: 3\n', 'apiVersion and kind are missing'],
    ['an empty kind', 'apiVersion: v1\nkind: ""\n', 'apiVersion and kind are missing'],
    [
      'a List item without kind',
      'apiVersion: v1\nkind: List\nitems:\n- a: 1\n',
      'document 1, item 1, line 4',
    ],
    ['broken YAML', `${POD}---\n${CONFIG}data: [a\n`, 'document 2, line 1'],
    ['an alias without anchor', `${CONFIG}data: {a: *nope}\n`, 'document 1, line 5: no anchor "nope"'],
    ['an anchor inside itself', `${CONFIG}data: &x [*x]\n`, 'the anchor "x" contains itself'],
    ['brackets without end', `${CONFIG}data: ${'['.repeat(100_000)}`, 'nested too deeply'],
    ['a rule of dashes', `${POD}-----\n${CONFIG}`, 'line 9: "-----" is no document marker'],
    ['a PEM at the margin', `${POD}-----BEGIN CERTIFICATE-----\n`, 'is no document marker'],
  ])('%s fails', (_, text, message) => {
    expect(() => parse(text)).toThrow(Failure)
    expect(() => parse(text)).toThrow(message)
    expect(() => parse(text)).toThrow('network.yaml')
  })

  it('an alias bomb fails at once', () => {
    const levels = Array.from({ length: 40 }, (_, level) => {
      const inner = level === 0 ? 'lol' : `*l${level - 1}`
      return `  l${level}: &l${level} [${Array.from({ length: 9 }, () => inner).join(', ')}]`
    })
    expect(() => parse(`${CONFIG}data:\n${levels.join('\n')}\n`)).toThrow('aliases blow this document up')
  })

  it('a merge bomb fails at once', () => {
    const levels = Array.from({ length: 40 }, (_, level) =>
      level === 0 ? '  l0: &l0 {a: 1}' : `  l${level}: &l${level} {<<: [*l${level - 1}, *l${level - 1}]}`,
    )
    expect(() => parse(`${CONFIG}data:\n${levels.join('\n')}\n`)).toThrow('aliases blow this document up')
  })
})

describe('what kubectl takes', () => {
  it.each([
    ['one object', POD, ['first']],
    ['a marker in front and behind', `---\n${POD}---\n`, ['first']],
    [
      'comment-only documents',
      `# top\n---\n# c\n---\n${POD}--- # c\n${CONFIG}---\n# end\n`,
      ['first', 'second'],
    ],
    ['"..." before a marker', `${POD}...\n---\n${CONFIG}...\n`, ['first', 'second']],
    ['spaces behind the marker', `${POD}---  \t\n${CONFIG}`, ['first', 'second']],
    ['JSON', '{\n\t"apiVersion": "v1",\n\t"kind": "Pod",\n\t"metadata": {"name": "json"}\n}', ['json']],
    [
      'a List',
      `apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n`,
      ['a', 'b'],
    ],
    ['a typed list', 'apiVersion: v1\nkind: PodList\nitems:\n- {metadata: {name: a}}\n', ['a']],
    ['an explicit key', '? apiVersion\n: v1\n? kind\n: Pod\n', ['']],
    [
      'a comment with no space before it',
      `${POD.replace('one:1', "one:1'#old").replace('ghcr', "'ghcr")}`,
      ['first'],
    ],
    ['an unknown tag', `${CONFIG}data: !thing {a: b}\n`, ['second']],
    ['a name twice anchored', `${CONFIG}data: {a: &x one, b: &x two, c: *x}\n`, ['second']],
    ['a text without a last newline', POD.trimEnd(), ['first']],
  ])('%s is taken', (_, text, expected) => {
    expect(names(text)).toEqual(expected)
    expect(parse(text).objects).toBe(expected.length)
    expect(parse(text).notices).toEqual([])
  })

  it('CRLF and byte order marks go from the text', () => {
    const crlf = `\uFEFF${POD}---\n\uFEFF${CONFIG}`.replaceAll('\n', '\r\n')
    expect(parse(crlf).text).toBe(`${POD}---\n${CONFIG}`)
    expect(imagesOf(parse(crlf))).toEqual(['ghcr.io/a/one:1'])
    expect(parse(POD.replaceAll('\n', '\r')).text).toBe(POD)
  })

  it('a duplicate key is a warning with its line, and the last one counts', () => {
    const manifest = parse(POD.replace('image:', 'image: old:1\n      image:'))
    expect(imagesOf(manifest)).toEqual(['ghcr.io/a/one:1'])
    expect(manifest.warnings).toEqual([
      {
        line: 9,
        message: expect.stringContaining('network.yaml: document 1, line 9: the key "image" stands twice'),
      },
    ])
  })

  it('two merge keys in one map are no duplicate', () => {
    const manifest = parse(`${CONFIG}data:\n  a: &a {x: 1}\n  b: &b {y: 2}\n  c:\n    <<: *a\n    <<: *b\n`)
    expect(manifest.warnings).toEqual([])
  })
})

describe('a document marker that shares its line', () => {
  const glued = `${POD.trimEnd()}---\n${CONFIG}`

  it('at the end of a value is given its own line, and no object is lost', () => {
    const manifest = parse(glued)
    expect(manifest.text).toBe(`${POD}---\n${CONFIG}`)
    expect(manifest.objects).toBe(2)
    expect(manifest.notices).toEqual([
      expect.stringContaining('network.yaml: line 8: "---" is glued to the end of'),
    ])
    expect(imagesOf(manifest)).toEqual(['ghcr.io/a/one:1'])
  })

  it.each([
    ['comments and blank lines follow', `${POD.trimEnd()}---\n\n# c\n${CONFIG}`],
    ['kind comes first', `${POD.trimEnd()}---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: second}\n`],
    ['the value is quoted', `${POD}      command: "x"---\n${CONFIG}`],
    ['the value is in brackets', `${POD}      command: [x]---\n${CONFIG}`],
    ['the file ended in a comment', `${POD}# the end---\n${CONFIG}`],
    ['the file ended in a block scalar', `${POD}      command:\n        - |\n          run it---\n${CONFIG}`],
    ['spaces and CRLF follow it', `${POD.trimEnd()}---  \n${CONFIG}`.replaceAll('\n', '\r\n')],
  ])('is found where %s', (_, text) => {
    expect(names(text)).toEqual(['first', 'second'])
    expect(parse(text).notices).toHaveLength(1)
    expect(parse(text).warnings).toEqual([])
    expect(parse(text).text).not.toMatch(/\S---/)
  })

  it('is found three times in one file, and lines are counted in the file as it came', () => {
    const third = CONFIG.replace('second', 'third')
    const text = `${POD.trimEnd()}---\n${CONFIG.trimEnd()}---\n${third.trimEnd()}---\n${CONFIG}`
    expect(names(text)).toEqual(['first', 'second', 'third', 'second'])
    expect(parse(text).notices.map((notice) => /line (\d+)/.exec(notice)?.[1])).toEqual(['8', '12', '16'])
  })

  it('in front of a key is given its own line', () => {
    expect(names(`${POD}---apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n`)).toEqual([
      'first',
      'second',
    ])
    expect(names(`${POD}--- {apiVersion: v1, kind: ConfigMap, metadata: {name: second}}\n`)).toEqual([
      'first',
      'second',
    ])
    expect(parse(`--- ${POD}`).notices).toEqual([expect.stringContaining('line 1')])
  })

  it('is added where an object follows "...", which kubectl would not read', () => {
    const manifest = parse(`${POD}...\n# c\n${CONFIG}`)
    expect(manifest.objects).toBe(2)
    expect(manifest.text).toContain('...\n---\n# c\n')
    expect(manifest.notices).toEqual([expect.stringContaining('line 9')])
  })

  it.each([
    ['a value that ends in dashes', `${CONFIG}data:\n  a: foo---\n  b: c\n`],
    [
      'a name that ends in dashes, at the end of its object',
      `kind: ConfigMap\nmetadata:\n  name: foo---\napiVersion: v1\n`,
    ],
    ['dashes at the end of the file', `${CONFIG}data:\n  a: foo---\n`],
    ['dashes before a true marker', `${CONFIG}data:\n  a: foo---\n---\n${POD}`],
    [
      'a PEM in a block scalar',
      `${CONFIG}data:\n  a: |\n    -----BEGIN CERTIFICATE-----\n    MII\n    -----END CERTIFICATE-----\n---\n${POD}`,
    ],
    [
      'a rule in a block scalar',
      `${CONFIG}data:\n  a: |\n    text\n    ---\n    apiVersion: v1\n    kind: x---\nbinaryData: {}\n`,
    ],
    [
      'an embedded manifest with glued dashes',
      `${CONFIG}data:\n  a: |\n    kind: x---\n    apiVersion: v1\n    kind: y\n`,
    ],
    ['a comment that ends in dashes', `# --- part one ---\n# part---\n${CONFIG}`],
    ['a comment inside an object', `apiVersion: v1\n# here---\nkind: ConfigMap\n`],
  ])('%s stays', (_, text) => {
    const manifest = parse(text)
    expect(manifest.text).toBe(text)
    expect(manifest.notices).toEqual([])
  })

  it('is not looked for in a PEM that two files without a separator meet at', () => {
    const text = `${CONFIG}data:\n  a: |\n    -----END CERTIFICATE-----\n${CONFIG}`
    expect(parse(text).notices).toEqual([])
    expect(parse(text).warnings.length).toBeGreaterThan(0)
  })
})
