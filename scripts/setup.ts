import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'

/**
 * Installs what a demo or the tests need and the machine lacks. `node scripts/setup.ts demo` or `… test`. Debian's and
 * Ubuntu's packages; as root or through sudo, else it says what to install. For tests, where Go is there, also a
 * containerd 2.x, crictl, actionlint and act, into .cache/.
 */

const root = resolve(import.meta.dirname, '..')

/** A program of each package: the package is installed when its program is missing. */
const PACKAGES = {
  demo: { containerd: 'containerd', git: 'git', xorriso: 'xorriso', 'docker-registry': 'docker-registry' },
  test: { genisoimage: 'genisoimage', bsdtar: 'libarchive-tools', setpriv: 'util-linux' },
}

/** Built by `go install`, and kept between runs. */
const GO_PROGRAMS = {
  containerd: 'github.com/containerd/containerd/v2/cmd/containerd@v2.4.2',
  ctr: 'github.com/containerd/containerd/v2/cmd/ctr@v2.4.2',
  crictl: 'sigs.k8s.io/cri-tools/cmd/crictl@v1.37.0',
  actionlint: 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12',
  act: 'github.com/nektos/act@v0.2.87',
}

const isTest = process.argv[2] === 'test'
installPackages(isTest ? { ...PACKAGES.demo, ...PACKAGES.test } : PACKAGES.demo)
if (isTest) installGoPrograms(join(root, '.cache', 'containerd2'))

function installPackages(wanted: Readonly<Record<string, string>>): void {
  const missing = Object.entries(wanted)
    .filter(([program]) => !isOnPath(program))
    .map(([, name]) => name)
  if (missing.length === 0) return
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n']
  const command = [...sudo, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-qq']
  console.error(`installing ${missing.join(' ')}`)
  const isDone =
    run([...command, 'update']) && run([...command, 'install', '-y', '--no-install-recommends', ...missing])
  if (!isDone) {
    console.error(`Could not install ${missing.join(' ')}: install them by hand, then run this again.`)
    process.exit(1)
  }
}

function installGoPrograms(dir: string): void {
  if (!isOnPath('go')) {
    console.error(
      'Go is not on this machine: the tests use the installed containerd only, and no actionlint and no act.',
    )
    return
  }
  const missing = Object.entries(GO_PROGRAMS).filter(([program]) => !existsSync(join(dir, program)))
  for (const [program, source] of missing) {
    console.error(`building ${source}`)
    try {
      execFileSync('go', ['install', source], {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: { ...process.env, GOBIN: dir, GOFLAGS: '', CGO_ENABLED: '0' },
      })
    } catch {
      console.error(`Could not build ${program}: the tests that use it are skipped.`)
    }
  }
}

function run(command: readonly string[]): boolean {
  const [program = '', ...args] = command
  return spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0
}

function isOnPath(program: string): boolean {
  const dirs = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']
  return dirs.some((dir) => existsSync(join(dir, program)))
}
