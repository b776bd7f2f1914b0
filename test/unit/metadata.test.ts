import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { actionYml, withTables } from '../../scripts/metadata.ts'
import { ACTION_SETTINGS, BUILD_SETTINGS, OUTPUTS } from '../../src/request/settings.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

it('action.yml and the tables of the README say what the settings say (else: npm run metadata)', () => {
  expect(read('action.yml')).toBe(actionYml())
  expect(read('README.md')).toBe(withTables(read('README.md')))
})

it('action.yml is a node24 action with exactly the inputs that the parser reads', () => {
  const action = parse(read('action.yml'))
  expect(Object.keys(action.inputs)).toEqual([...BUILD_SETTINGS, ...ACTION_SETTINGS].map(({ name }) => name))
  expect(Object.keys(action.outputs)).toEqual(OUTPUTS.map(({ name }) => name))
  expect(action.runs).toMatchObject({ using: 'node24', main: 'dist/index.js', post: 'dist/post.js' })
})

it('leaves empty in action.yml what a lock may stand for, and says there what empty means', () => {
  const { inputs } = parse(read('action.yml'))
  for (const { name, default: fallback } of BUILD_SETTINGS) {
    expect(inputs[name].default, name).toBe('')
    if (fallback !== '') expect(inputs[name].description, name).toContain(` Default: ${fallback}`)
  }
  for (const { name, default: fallback } of ACTION_SETTINGS) expect(inputs[name].default, name).toBe(fallback)
})
