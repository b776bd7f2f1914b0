import { Failure } from './errors.ts'

/** Architecture names as Kubernetes and Go write them. */
export type Arch = 'amd64' | 'arm64'

/** The two spellings of each architecture: Go's, and the kernel's (`uname -m`), which ISO files are named by. */
const MACHINES: Readonly<Record<Arch, string>> = { amd64: 'x86_64', arm64: 'aarch64' }

/** `x86_64` or `aarch64`: how CloudStack's ISO files are named. */
export function machineOf(arch: Arch): string {
  return MACHINES[arch]
}

/** The containerd platform of a node of this architecture. */
export function platformOf(arch: Arch): string {
  return `linux/${arch}`
}

/** @throws Failure when the text is none of amd64, x86_64, arm64, aarch64 */
export function parseArch(text: string): Arch {
  const wanted = text.trim().toLowerCase()
  if (wanted === 'amd64' || wanted === MACHINES.amd64) return 'amd64'
  if (wanted === 'arm64' || wanted === MACHINES.arm64) return 'arm64'
  throw new Failure(
    `arch: ${JSON.stringify(text)} is no architecture that CloudStack nodes run`,
    'Set arch to amd64 (x86_64) or arm64 (aarch64).',
  )
}

/** The architecture of the machine that builds. */
export function hostArch(): Arch {
  return parseArch(process.arch === 'x64' ? 'amd64' : process.arch)
}
