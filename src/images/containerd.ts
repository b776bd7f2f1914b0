import { mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Failure, fileFailure, hasCode } from '../errors.ts'
import type { ProgramOutput, Programs, RunOptions } from '../exec.ts'
import type { Log } from '../log.ts'
import type { RegistryMirror } from '../request/mirrors.ts'
import { writeHosts } from './hosts.ts'

/** Names or paths of the programs of one containerd release. */
export interface ContainerdBinaries {
  readonly containerd: string
  readonly ctr: string
}

/** A containerd of our own: nobody else's images, nothing left behind in the machine's. */
export interface Containerd {
  /** How ctr is told not to fetch manifests of platforms that nobody asked for. */
  readonly fetchFlags: readonly string[]
  /** The mirrors that ctr goes by. */
  readonly mirrors: readonly RegistryMirror[]
  /** Tree of hosts.toml files for `--hosts-dir`. */
  readonly hostsDir: string
  /** Runs ctr against it. A non-zero exit code is returned. */
  ctr(args: readonly string[], options: RunOptions): Promise<ProgramOutput>
  /** The file that holds a blob; absent as long as the blob is not whole. */
  blobPath(digest: string): string
}

/**
 * Plug-ins that need root, reach out of our directory, or serve to run containers. containerd ignores the names
 * that a release does not have.
 */
const DISABLED_PLUGINS = [
  'io.containerd.cri.v1.images',
  'io.containerd.cri.v1.runtime',
  'io.containerd.differ.v1.erofs',
  'io.containerd.grpc.v1.cri',
  'io.containerd.grpc.v1.sandbox-controllers',
  'io.containerd.grpc.v1.tasks',
  'io.containerd.image-verifier.v1.bindir',
  'io.containerd.internal.v1.opt',
  'io.containerd.internal.v1.restart',
  'io.containerd.monitor.container.v1.restart',
  'io.containerd.monitor.task.v1.cgroups',
  'io.containerd.monitor.v1.cgroups',
  'io.containerd.mount-handler.v1.erofs',
  'io.containerd.nri.v1.nri',
  'io.containerd.podsandbox.controller.v1.podsandbox',
  'io.containerd.runtime.v1.linux',
  'io.containerd.runtime.v2.shim',
  'io.containerd.runtime.v2.task',
  'io.containerd.sandbox.controller.v1.local',
  'io.containerd.sandbox.controller.v1.shim',
  'io.containerd.service.v1.tasks-service',
  'io.containerd.shim.v1.manager',
  'io.containerd.snapshotter.v1.aufs',
  'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.btrfs',
  'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.snapshotter.v1.erofs',
  'io.containerd.snapshotter.v1.overlayfs',
  'io.containerd.snapshotter.v1.zfs',
] as const

const NAMESPACE = 'cks-iso'

const SOCKET = 'containerd.sock'

/**
 * Where a process that works in our directory finds it. The path of a socket may have 107 bytes, which a temporary
 * directory can exceed.
 */
const HERE = '/proc/self/cwd'

/** How long containerd may take to answer, in milliseconds. It takes 20 where nothing is wrong. */
const START_TIMEOUT = 60_000

/** Between two looks, in milliseconds. */
const POLL = 20

const NEXT =
  'Install containerd 1.6, 1.7 or 2.x with its ctr, or take them off PATH to have a pinned release fetched.'

/**
 * Starts a private containerd that holds images and runs nothing. It needs no root, and ends with the programs it
 * was started among.
 * @param options.dir a directory for its data, made when missing
 * @throws Failure when a program is missing or of an unknown release, or when containerd does not come up
 */
export async function startContainerd(options: {
  readonly dir: string
  readonly programs: Programs
  readonly binaries: ContainerdBinaries
  readonly mirrors: readonly RegistryMirror[]
  readonly log: Log
}): Promise<Containerd> {
  const { dir, programs, binaries, mirrors, log } = options
  const daemonVersion = await versionOf(programs, binaries.containerd)
  const ctrVersion = await versionOf(programs, binaries.ctr)
  log.info(
    `containerd ${daemonVersion.text} (${binaries.containerd}), ctr ${ctrVersion.text} (${binaries.ctr})`,
  )

  const hostsDir = join(dir, 'hosts')
  const config = join(dir, 'config.toml')
  await mkdir(dir, { recursive: true, mode: 0o700 })
    .then(() => writeFile(config, configFile(dir)))
    .catch((thrown: unknown) => {
      throw fileFailure('Cannot make the directory of the private containerd', dir, thrown)
    })
  await writeHosts(hostsDir, mirrors)

  const what = 'Cannot start a private containerd'
  // It has to work in its directory for HERE to lead there.
  const daemon = await programs.start(binaries.containerd, ['--config', config], {
    what,
    next: NEXT,
    cwd: dir,
  })
  let exitCode: number | undefined
  const ended = daemon.ended.then((code) => {
    exitCode = code
  })

  const ctr = async (args: readonly string[], run: RunOptions): Promise<ProgramOutput> => {
    const output = await programs.tryRun(
      binaries.ctr,
      ['--debug', '--address', `${HERE}/${SOCKET}`, '--namespace', NAMESPACE, ...args],
      { ...run, cwd: dir },
    )
    if (output.exitCode !== 0 && exitCode !== undefined) {
      throw new Failure(
        `${run.what}: the private containerd ended with ${exitCode}: ${daemon.tail() || 'no output'}`,
        'Look at the reason above, and at free memory and disk space.',
      )
    }
    return output
  }

  const deadline = Date.now() + START_TIMEOUT
  while (!(await answers(ctr, join(dir, SOCKET)))) {
    if (exitCode !== undefined || Date.now() > deadline) {
      const how = exitCode === undefined ? 'it does not answer' : `it ended with ${exitCode}`
      throw new Failure(`${what} (${binaries.containerd}): ${how}: ${daemon.tail() || 'no output'}`, NEXT)
    }
    await Promise.race([ended, sleep(POLL)])
  }

  return {
    fetchFlags: ctrVersion.major >= 2 ? ['--skip-metadata'] : [],
    mirrors,
    hostsDir,
    ctr,
    blobPath: (digest) => join(dir, 'root/io.containerd.content.v1.content/blobs', digest.replace(':', '/')),
  }
}

async function answers(ctr: Containerd['ctr'], socket: string): Promise<boolean> {
  const exists = await stat(socket).catch((thrown: unknown) => {
    if (hasCode(thrown, 'ENOENT')) return undefined
    throw fileFailure('Cannot look for the socket of the private containerd', socket, thrown)
  })
  if (exists === undefined) return false
  const what = 'Cannot reach the private containerd'
  const { exitCode } = await ctr(['version'], { what, next: NEXT, timeout: START_TIMEOUT })
  return exitCode === 0
}

/** Version 2 of the format is the one that 1.6, 1.7 and 2.x all read. */
function configFile(dir: string): string {
  const owner = `uid = ${process.getuid?.() ?? 0}\ngid = ${process.getgid?.() ?? 0}`
  const socket = (name: string): string => `address = ${JSON.stringify(`${HERE}/${name}`)}\n${owner}`
  return [
    'version = 2',
    `root = ${JSON.stringify(join(dir, 'root'))}`,
    `state = ${JSON.stringify(join(dir, 'state'))}`,
    `disabled_plugins = ${JSON.stringify(DISABLED_PLUGINS)}`,
    `[grpc]\n${socket(SOCKET)}`,
    `[ttrpc]\n${socket('ttrpc.sock')}`,
    `[debug]\n${socket('debug.sock')}\nlevel = "warn"`,
    '',
  ].join('\n')
}

/** @throws Failure when the program is missing, or of a release whose flags are not known here */
async function versionOf(programs: Programs, program: string): Promise<{ major: number; text: string }> {
  const what = `Cannot learn the version of ${program}`
  const { stdout } = await programs.run(program, ['--version'], { what, next: NEXT, timeout: 30_000 })
  return readVersion(program, stdout)
}

/**
 * Reads what `containerd --version` or `ctr --version` prints: `ctr github.com/containerd/containerd/v2 2.4.2`.
 * @throws Failure for anything but 1.6, 1.7 and 2.x
 */
export function readVersion(program: string, output: string): { major: number; text: string } {
  const [, text, major, minor] = /\sv?((\d+)\.(\d+)\.\d+\S*)/.exec(output) ?? []
  const known = major === '2' || (major === '1' && Number(minor) >= 6)
  if (text === undefined || !known) {
    throw new Failure(
      `${program} is of an unknown release: it calls itself ${JSON.stringify(output.trim().slice(0, 200))}; known are 1.6, 1.7 and 2.x`,
      NEXT,
    )
  }
  return { major: Number(major), text }
}
