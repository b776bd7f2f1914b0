import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Bench } from '../harness.ts'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '../..')

/** Name of the repository on the GitHub that is not there. */
const REPOSITORY = 'example/cks-iso'

/** Actions of GitHub that the workflows use, and that stand in this folder for the real ones. */
const ACTIONS = {
  'actions/checkout': ['repository', 'ref', 'persist-credentials'],
  'actions/download-artifact': ['pattern', 'path', 'merge-multiple'],
  'actions/upload-artifact': ['name', 'path'],
  'actions/attest-build-provenance': ['subject-path'],
  'actions/attest': ['subject-path', 'sbom-path'],
}

/** For one run, in milliseconds: below what a test has. */
const TIMEOUT = 220_000

export interface ActRun {
  readonly code: number | null
  /** What act and the jobs printed. */
  readonly output: string
}

/** A copy of this repository with act to run its workflows, and a GitHub made of folders. */
export interface ActRig {
  /** Runs a workflow as when started by hand. */
  dispatch(
    workflow: string,
    inputs: Readonly<Record<string, string>>,
    vars: Readonly<Record<string, string>>,
  ): Promise<ActRun>
  /** Folder with a folder of assets for each release. */
  readonly releases: string
  /** Arguments of each call of gh so far. */
  ghCalls(): Promise<readonly (readonly string[])[]>
  /** What git sees as changed in the copy. */
  changes(): Promise<string>
  /** Command lines of processes that a run has left behind. */
  leftovers(): Promise<readonly string[]>
  /** Ends what a run that was cut short has left behind. */
  close(): Promise<void>
}

/**
 * Makes a rig in a bench; its files go with that.
 * @param env variables that lead to a results service. act's own takes no artifact that is not zipped: it answers
 *   `unknown field "mime_type"` (nektos/act issue 6022).
 */
export async function makeActRig(
  act: string,
  bench: Bench,
  env: Readonly<Record<string, string>>,
): Promise<ActRig> {
  const github = join(bench.dir, 'github')
  const clone = join(github, REPOSITORY)
  const bin = join(bench.dir, 'bin')
  const home = join(bench.dir, 'home')
  const releases = join(github, 'releases')
  for (const dir of [clone, bin, home, releases]) await mkdir(dir, { recursive: true })
  await copyRepository(clone)
  await writeFile(
    join(bin, 'gh'),
    `#!/bin/sh\nexec '${process.execPath}' '${join(import.meta.dirname, 'gh.ts')}' "$@"\n`,
  )
  await chmod(join(bin, 'gh'), 0o755)
  const actions = await writeActions(join(bench.dir, 'actions'))

  return {
    releases,
    dispatch: async (workflow, inputs, vars) => {
      const pairs = (flag: string, values: Readonly<Record<string, string>>): readonly string[] =>
        Object.entries(values).flatMap(([name, value]) => [flag, `${name}=${value}`])
      const args = [
        'workflow_dispatch',
        ...['--directory', clone, '--workflows', join(clone, '.github/workflows', workflow)],
        ...['--platform', 'ubuntu-24.04=-self-hosted', '--no-cache-server', '--secret', 'GITHUB_TOKEN=none'],
        ...['--artifact-server-addr', '127.0.0.1', '--cache-server-addr', '127.0.0.1'],
        ...(await pinsOf(clone)).flatMap(([action, pin]) => [
          '--local-repository',
          `${pin}=${join(actions, action)}`,
        ]),
        ...pairs('--input', inputs),
        ...pairs('--var', vars),
      ]
      const child = spawn(act, args, {
        cwd: clone,
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: TIMEOUT,
        env: {
          ...outsideOfRunners(process.env),
          ...env,
          // The node of the tests, since act runs what it finds for every version that an action names.
          PATH: [bin, dirname(process.execPath), process.env.PATH].join(delimiter),
          HOME: home,
          XDG_CACHE_HOME: join(home, '.cache'),
          XDG_CONFIG_HOME: join(home, '.config'),
          TMPDIR: bench.temp,
          FAKE_GITHUB: github,
        },
      })
      const kill = (): void => void child.kill('SIGKILL')
      process.once('exit', kill)
      const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
      process.off('exit', kill)
      return { code: child.exitCode, output: `${out}${err}` }
    },
    ghCalls: async () => {
      const lines = (await readFile(join(github, 'gh-calls.jsonl'), 'utf8')).trimEnd().split('\n')
      return lines.map((line) => JSON.parse(line))
    },
    changes: async () => await git(clone, 'status', '--porcelain', '--ignored'),
    leftovers: async () => (await processesOf(github)).map(({ command }) => command),
    close: async () => {
      for (const { pid } of await processesOf(github)) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // It has ended meanwhile.
        }
      }
    },
  }
}

/** Copies the working tree, since what is in it has to work, committed or not, and makes it a repository of its own. */
async function copyRepository(clone: string): Promise<void> {
  const left = ['.git', '.cache', 'node_modules', 'out'].map((name) => join(root, name))
  await cp(root, clone, { recursive: true, filter: (path) => !left.includes(path) })
  await git(clone, 'init', '--quiet', '--initial-branch', 'main')
  await git(clone, 'remote', 'add', 'origin', `https://github.com/${REPOSITORY}`)
  await git(clone, 'add', '--all')
  await git(clone, '-c', 'user.name=test', '-c', 'user.email=test@test.example', 'commit', '-qm', 'Test')
  await git(clone, 'clean', '-qfdX')
}

/** Runs git without the configuration of this machine. */
async function git(cwd: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' }
  return (await run('git', args, { cwd, env })).stdout
}

/** Writes a folder for each action, whose program is that of this folder: act copies the former only. */
async function writeActions(dir: string): Promise<string> {
  for (const [action, inputs] of Object.entries(ACTIONS)) {
    const folder = join(dir, action)
    await mkdir(folder, { recursive: true })
    const program = join(import.meta.dirname, `${action.replace('actions/', '')}.ts`)
    await writeFile(join(folder, 'index.mjs'), `import ${JSON.stringify(pathToFileURL(program).href)}\n`)
    const metadata = {
      name: action,
      description: 'A stand-in',
      inputs: Object.fromEntries(inputs.map((input) => [input, { description: input, required: false }])),
      runs: { using: 'node24', main: 'index.mjs' },
    }
    await writeFile(join(folder, 'action.yml'), JSON.stringify(metadata))
  }
  return dir
}

/** The actions as the workflows pin them: name, and `name@commit`. */
async function pinsOf(clone: string): Promise<readonly (readonly [string, string])[]> {
  const workflow = await readFile(join(clone, '.github/workflows/build.yml'), 'utf8')
  const uses = workflow.matchAll(/uses: ((actions\/[\w-]+)@\S+)/g)
  return [...uses].map(([, pin = '', action = '']) => [action, pin] as const)
}

/** The variables without those of a runner that runs these tests. */
function outsideOfRunners(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !/^(?:ACTIONS|GH|GITHUB|INPUT|RUNNER)_/.test(name)),
  )
}

/** The processes that have this folder in their environment. */
async function processesOf(github: string): Promise<readonly { pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    try {
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8')
      if (!environment.includes(`FAKE_GITHUB=${github}\0`)) continue
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8')
      found.push({ pid: Number(pid), command: command.replaceAll('\0', ' ') })
    } catch {
      // It has ended meanwhile, or belongs to somebody else.
    }
  }
  return found
}
