import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import type { ContainerdBinaries } from '../src/images/containerd.ts'

/** A containerd to test with. */
export interface ContainerdInstall extends ContainerdBinaries {
  /** Such as `containerd 1.6.20~ds1`, for the names of tests. */
  readonly name: string
}

const root = resolve(import.meta.dirname, '..')

/** Where a second containerd (2.x) may be: the named folder, or one in the clone that git ignores. */
const second = process.env.CKS_ISO_CONTAINERD2_DIR ?? join(root, '.cache/containerd2')

/** Every containerd there is to test with: that of PATH, and a 2.x where one is kept. */
export const containerds: readonly ContainerdInstall[] = [
  ...install('containerd', 'ctr'),
  ...(existsSync(second) ? install(join(second, 'containerd'), join(second, 'ctr')) : []),
]

/** The CRI client; undefined where there is none. */
export const crictl: string | undefined = find('crictl')

/** The program that runs workflows as GitHub does (nektos/act); undefined where there is none. */
export const act: string | undefined = find('act')

/** A program from beside the second containerd or from PATH. */
function find(program: string): string | undefined {
  return [second, ...(process.env.PATH ?? '').split(delimiter)]
    .map((dir) => join(dir, program))
    .find(isExecutable)
}

function install(containerd: string, ctr: string): readonly ContainerdInstall[] {
  try {
    const output = execFileSync(containerd, ['--version'], { encoding: 'utf8', timeout: 20_000 })
    return [{ name: `containerd ${/ v?(\d+\.\S+)/.exec(output)?.[1] ?? output}`, containerd, ctr }]
  } catch {
    return []
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
