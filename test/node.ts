import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ContainerdBinaries } from '../src/images/containerd.ts'

const run = promisify(execFile)

/** An image as the container runtime interface (CRI), and so kubelet, sees it. */
export interface NodeImage {
  /** Digest of its configuration. */
  readonly id: string
  readonly repoTags: readonly string[]
  readonly repoDigests: readonly string[]
}

/** The containerd of a cluster node, with its CRI image service. */
export interface ClusterNode {
  /** What the node scripts do with each file of docker/: `ctr -n k8s.io image import FILE`. */
  import(file: string, ...flags: readonly string[]): Promise<void>
  /** `ctr -n k8s.io images ls -q`, without the IDs by which CRI names the images as well, some time later. */
  names(): Promise<readonly string[]>
  /** What kubelet's question for an image is answered with; undefined when the node would have to pull it. */
  find(crictl: string, reference: string): Promise<NodeImage | undefined>
  /** Every image that the node's CRI lists. */
  list(crictl: string): Promise<readonly NodeImage[]>
  close(): Promise<void>
}

/** Where processes that work in the node's directory find its socket, however long the path of that is. */
const SOCKET = '/proc/self/cwd/node.sock'

const TIMEOUT = 60_000

/** Starts a fresh containerd with CRI, as on a cluster node. Needs root. */
export async function startNode({ containerd, ctr }: ContainerdBinaries): Promise<ClusterNode> {
  const dir = await mkdtemp(join(tmpdir(), 'node-'))
  await mkdir(join(dir, 'cni'))
  await writeFile(
    join(dir, 'config.toml'),
    `version = 2
root = "${dir}/root"
state = "${dir}/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
[grpc]
address = "${SOCKET}"
[ttrpc]
address = "/proc/self/cwd/ttrpc.sock"
[debug]
address = "/proc/self/cwd/debug.sock"
level = "warn"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "${dir}/cni"
conf_dir = "${dir}/cni"
`,
  )
  const daemon = spawn(containerd, ['--config', 'config.toml'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const stop = (): void => void daemon.kill('SIGKILL')
  process.once('exit', stop)
  let errors = ''
  daemon.stderr.on('data', (data: Buffer) => {
    errors = `${errors}${data}`.slice(-4000)
  })

  const options = { cwd: dir, timeout: TIMEOUT, env: { ...process.env, LC_ALL: 'C' } }
  const ctrRun = (...args: readonly string[]) =>
    run(ctr, ['--address', SOCKET, '--namespace', 'k8s.io', ...args], options)
  const crictlRun = async (crictl: string, ...args: readonly string[]): Promise<unknown> => {
    const endpoint = `unix://${SOCKET}`
    const { stdout } = await run(
      crictl,
      ['--runtime-endpoint', endpoint, '--image-endpoint', endpoint, ...args],
      options,
    )
    return JSON.parse(stdout)
  }
  const node: ClusterNode = {
    import: async (file, ...flags) => {
      await ctrRun('image', 'import', ...flags, file)
    },
    names: async () =>
      (await ctrRun('images', 'ls', '-q')).stdout
        .split('\n')
        .filter((name) => name !== '' && !name.startsWith('sha256:')),
    find: async (crictl, reference) => {
      const answer = await crictlRun(crictl, 'inspecti', '-o', 'json', reference).catch((thrown: unknown) => {
        if (thrown instanceof Error && /no such image/.test(thrown.message)) return undefined
        throw thrown
      })
      return answer === undefined ? undefined : readImage(isRecord(answer) ? answer.status : undefined)
    },
    list: async (crictl) => {
      const answer = await crictlRun(crictl, 'images', '-o', 'json')
      return isRecord(answer) && Array.isArray(answer.images) ? answer.images.map(readImage) : []
    },
    close: async () => {
      process.off('exit', stop)
      if (daemon.exitCode === null) {
        daemon.kill()
        await once(daemon, 'exit')
      }
      await rm(dir, { recursive: true, force: true, maxRetries: 3 })
    },
  }

  for (let tries = 0; tries < 500; tries++) {
    if (daemon.exitCode !== null) break
    const isReady = await ctrRun('version').then(
      () => true,
      () => false,
    )
    if (isReady) return node
    await sleep(20)
  }
  await node.close()
  throw new Error(`${containerd} does not come up as a node: ${errors}`)
}

function readImage(value: unknown): NodeImage {
  if (!isRecord(value) || typeof value.id !== 'string') throw new Error(`no image: ${JSON.stringify(value)}`)
  return { id: value.id, repoTags: strings(value.repoTags), repoDigests: strings(value.repoDigests) }
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
