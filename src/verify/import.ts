import { join } from 'node:path'
import { type Arch, hostArch, platformOf } from '../arch.ts'
import { Failure } from '../errors.ts'
import { tailOf } from '../exec.ts'
import { type ContainerdBinaries, startContainerd } from '../images/containerd.ts'
import type { Log } from '../log.ts'
import type { Workspace } from '../workspace.ts'

/** A containerd that is fresh, as that of a new node. */
export interface Importer {
  /** True when an import also unpacks the layers, which takes root. */
  readonly unpacks: boolean
  /** Imports an archive. @returns undefined, or why it was refused */
  import(file: string): Promise<string | undefined>
  /** The names that the images have by now. */
  names(): Promise<ReadonlySet<string>>
}

const TIMEOUT = 10 * 60_000

const NEXT = 'Look at the reason above, and at free memory and disk space.'

/**
 * Starts a fresh private containerd to import archives as nodes do. As root it unpacks, too.
 * @throws Failure when containerd does not come up
 */
export async function startImporter(context: {
  readonly binaries: ContainerdBinaries
  readonly arch: Arch
  readonly workspace: Workspace
  readonly log: Log
}): Promise<Importer> {
  const { binaries, arch, workspace, log } = context
  const containerd = await startContainerd({
    dir: join(workspace.dir, 'verify-containerd'),
    programs: workspace.programs,
    binaries,
    mirrors: [],
    log,
  })
  const run = async (what: string, args: readonly string[]) =>
    await containerd.ctr(args, { what, next: NEXT, timeout: TIMEOUT })

  const help = await run('Cannot ask ctr what it can do', ['image', 'import', '--help'])
  const unpacks = process.getuid?.() === 0
  const flags = [
    // The private containerd has no transfer service, which ctr 2 would go to otherwise.
    ...(help.stdout.includes('--local') ? ['--local'] : []),
    ...(unpacks ? ['--snapshotter', 'native'] : ['--no-unpack']),
    ...(arch === hostArch() ? [] : ['--platform', platformOf(arch)]),
  ]
  return {
    unpacks,
    import: async (file) => {
      const { exitCode, stderr } = await run(`Cannot import ${file}`, ['image', 'import', ...flags, file])
      return exitCode === 0 ? undefined : reasonIn(stderr) || `ctr exited with ${exitCode}`
    },
    names: async () => {
      const what = 'Cannot list the imported images'
      const { exitCode, stdout, stderr } = await run(what, ['image', 'ls', '--quiet'])
      if (exitCode !== 0) throw new Failure(`${what}: ${tailOf(stderr)}`, NEXT)
      return new Set(stdout.split('\n').filter((line) => line !== ''))
    },
  }
}

/** The last line that ctr says, without the log lines that come with it. */
function reasonIn(stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('time='))
  return (lines.at(-1) ?? '').replace(/^ctr: /, '')
}
