import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Runs actionlint over the workflows, and over each action.yml through a workflow that uses it. */

const root = resolve(import.meta.dirname, '..')
const kept = join(root, '.cache', 'containerd2', 'actionlint')
const program = existsSync(kept) ? kept : 'actionlint'
const dir = join(root, '.github', 'workflows')
const workflows = readdirSync(dir)
  .filter((name) => /\.ya?ml$/.test(name))
  .map((name) => join(dir, name))
const { status, error } = spawnSync(program, ['-shellcheck=', '-pyflakes=', ...workflows], {
  stdio: 'inherit',
  cwd: root,
})
if (error !== undefined) {
  console.error(`actionlint cannot run (${error.message}): install it or Go, then run "npm run setup".`)
  process.exit(1)
}
if (status === 0) console.log(`actionlint: ${workflows.length} workflows are clean`)
process.exit(status ?? 1)
