import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { addCloudStackCommands } from '../../src/cloudstack/cli.ts'
import { cloudStackSettings } from '../../src/cloudstack/settings.ts'
import { Lines } from '../cloudstack/rig.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

describe('the table of settings', () => {
  it('is what upgrade/action.yml has as inputs', () => {
    const { inputs } = parse(read('upgrade/action.yml'))
    expect(inputs).toEqual(
      Object.fromEntries(
        cloudStackSettings().map(({ name, description, default: byDefault, required = false }) => [
          name,
          { description, required, ...(required ? {} : { default: byDefault }) },
        ]),
      ),
    )
  })

  it('is what docs/upgrade.md shows', () => {
    const [, table = ''] = read('docs/upgrade.md').split(/<!-- \/?settings -->/)
    const cells = table
      .trim()
      .split('\n')
      .slice(2)
      .map((row) => row.split('|').map((cell) => cell.trim()))
    expect(cells).toEqual(
      cloudStackSettings().map(({ name, description, default: byDefault }) => [
        '',
        `\`${name}\``,
        byDefault === '' ? '' : `\`${byDefault}\``,
        description,
        '',
      ]),
    )
  })

  it.each(['register', 'upgrade'] as const)(
    'is what the command %s has as options, secrets left out',
    (part) => {
      const program = new Command()
      const context = {
        log: new Lines(),
        signal: new AbortController().signal,
        cwd: '/',
        tempDir: '/tmp',
        env: {},
        print: () => {},
      }
      addCloudStackCommands(program, context)
      const command = program.commands.find((each) => each.name() === part)
      expect(command?.options.map(({ long }) => long)).toEqual(
        cloudStackSettings(part)
          .filter(({ secret }) => !secret)
          .map(({ name }) => `--${name}`),
      )
      expect(command?.options.map(({ long }) => long)).not.toContain('--secret-key')
    },
  )

  it('has every name once', () => {
    const names = cloudStackSettings().map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  })
})

it('upgrade/action.yml runs the bundle on Node 24', () => {
  expect(parse(read('upgrade/action.yml')).runs).toEqual({ using: 'node24', main: '../dist/upgrade.js' })
})
