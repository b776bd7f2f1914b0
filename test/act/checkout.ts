import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { getInput } from '@actions/core'

/** Stands in for actions/checkout: fetches one commit of a repository into the workspace, as the inputs say. */

const { FAKE_GITHUB = '', GITHUB_REPOSITORY = '', GITHUB_SHA = '', GITHUB_WORKSPACE = '' } = process.env
const repository = getInput('repository') || GITHUB_REPOSITORY
// Only for the run's own repository does an empty ref mean the commit of the run.
const ref = getInput('ref') || (repository === GITHUB_REPOSITORY ? GITHUB_SHA : 'HEAD')

const git = (...args: readonly string[]): void => {
  execFileSync('git', args, { cwd: GITHUB_WORKSPACE, stdio: 'inherit' })
}
git('init', '--quiet', '--initial-branch', 'main')
git('fetch', '--quiet', '--depth', '1', join(FAKE_GITHUB, repository), ref)
git('checkout', '--quiet', 'FETCH_HEAD')
