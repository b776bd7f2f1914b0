import { appendFileSync, copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'

/**
 * Stands in for GitHub's client, `gh`: so much of https://cli.github.com/manual as build.yml uses. In FAKE_GITHUB,
 * releases/ holds a folder of assets for each release, and gh-calls.jsonl what was called.
 */

/** The only filter that is known: there is no jq in here. */
const ISO_NAMES = '.[].assets[].name | select(endswith(".iso"))'

class GhError extends Error {
  readonly code: number

  constructor(message: string, code = 1) {
    super(message)
    this.code = code
  }
}

const { GH_TOKEN, GH_REPO, GITHUB_REPOSITORY = '', FAKE_GITHUB = '' } = process.env
const releases = join(FAKE_GITHUB, 'releases')
const args = process.argv.slice(2)

function run(): void {
  if (!GH_TOKEN) throw new GhError('gh: set the GH_TOKEN environment variable', 4)
  const [command, ...rest] = args
  if (command === 'api') api(rest)
  else if (command === 'release') release(rest)
  else throw new GhError(`unknown command "${command}" for "gh"`)
}

function release([command = '', ...rest]: string[]): void {
  const action = ACTIONS[command]
  if (action === undefined) throw new GhError(`unknown command "${command}" for "gh release"`)
  // The job that publishes has no checkout, from which gh would know the repository.
  if (GH_REPO !== GITHUB_REPOSITORY) throw new GhError('failed to determine base repo')
  action(rest)
}

function api(rest: string[]): void {
  const { values, positionals } = parseArgs({
    args: rest,
    allowPositionals: true,
    options: { paginate: { type: 'boolean' }, jq: { type: 'string', short: 'q' } },
  })
  if (positionals.join(' ') !== `repos/${GITHUB_REPOSITORY}/releases?per_page=100` || !values.paginate) {
    throw new GhError(`gh: Not Found (HTTP 404): ${positionals.join(' ')}`)
  }
  if (values.jq !== ISO_NAMES) throw new GhError(`this gh does not know the filter ${values.jq}`)
  for (const tag of readdirSync(releases)) {
    for (const asset of readdirSync(join(releases, tag))) {
      if (asset.endsWith('.iso')) console.log(asset)
    }
  }
}

const ACTIONS: Readonly<Record<string, (rest: string[]) => void>> = {
  view: (rest) => {
    const { positionals } = parseArgs({ args: rest, allowPositionals: true, options: {} })
    console.log(`tag:\t${basename(existing(positionals[0]))}`)
  },
  create: (rest) => {
    const { positionals } = parseArgs({
      args: rest,
      allowPositionals: true,
      options: {
        target: { type: 'string' },
        latest: { type: 'string' },
        title: { type: 'string', short: 't' },
        notes: { type: 'string', short: 'n' },
      },
    })
    const dir = folderOf(positionals[0])
    if (existsSync(dir)) throw new GhError('a release with the same tag name already exists')
    mkdirSync(dir)
  },
  upload: (rest) => {
    const { values, positionals } = parseArgs({
      args: rest,
      allowPositionals: true,
      options: { clobber: { type: 'boolean', default: false } },
    })
    const [tag, ...files] = positionals
    const dir = existing(tag)
    if (files.length === 0) throw new GhError('requires at least 2 arg(s), only received 1')
    const taken = files.map((file) => basename(file)).filter((name) => existsSync(join(dir, name)))
    if (taken.length > 0 && !values.clobber) {
      throw new GhError(`asset under the same name already exists: [${taken.join(' ')}]`)
    }
    for (const file of files) copyFileSync(file, join(dir, basename(file)))
  },
}

function folderOf(tag = ''): string {
  if (!/^[\w.-]+$/.test(tag)) throw new GhError(`bad tag "${tag}"`)
  return join(releases, tag)
}

function existing(tag: string | undefined): string {
  const dir = folderOf(tag)
  if (!existsSync(dir)) throw new GhError('release not found')
  return dir
}

try {
  appendFileSync(join(FAKE_GITHUB, 'gh-calls.jsonl'), `${JSON.stringify(args)}\n`)
  run()
} catch (thrown) {
  console.error(thrown instanceof Error ? thrown.message : String(thrown))
  process.exitCode = thrown instanceof GhError ? thrown.code : 1
}
