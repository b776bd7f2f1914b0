import { prerelease } from 'semver'
import type { Arch } from '../arch.ts'
import { newestOfMinor, newestUpToMinor } from '../plan/releases.ts'
import type { Version } from '../request/version.ts'

/** One job of the matrix, with the names that the action's inputs have. */
export interface MatrixJob {
  readonly 'kubernetes-version': Version
  readonly arch: Arch
  /** Empty where the build finds the newest of the minor itself. */
  readonly 'autoscaler-version': string
}

/** What is not built, and why. */
export interface Skipped {
  /** A version, or a minor that has none. */
  readonly version: string
  readonly arch: Arch
  readonly reason: string
}

export interface Matrix {
  readonly include: readonly MatrixJob[]
  readonly skipped: readonly Skipped[]
}

/** What is known about the wanted minors. */
export interface MatrixFacts {
  /** With the newest version of each; undefined where it has none. */
  readonly minors: readonly { readonly minor: string; readonly newest: Version | undefined }[]
  readonly archs: readonly Arch[]
  /** Releases of the cluster autoscaler, newest first. */
  readonly autoscalers: readonly Version[]
  /** Names of what is there already. */
  readonly released: readonly string[]
}

/** Which versions to build for which architecture, newest first as they come. Pure. */
export function planMatrix({ minors, archs, autoscalers, released }: MatrixFacts): Matrix {
  const include: MatrixJob[] = []
  const skipped: Skipped[] = []
  for (const { minor, newest } of minors) {
    for (const arch of archs) {
      const skip = (reason: string): void => void skipped.push({ version: newest ?? minor, arch, reason })
      if (newest === undefined) {
        skip(`Kubernetes ${minor} has no release`)
        continue
      }
      const name = released.find((candidate) => standsFor(candidate, newest, arch))
      // A pre-release is early by intent: its minor has no autoscaler yet, so that of a lower one has to do.
      const isEarly = prerelease(newest) !== null
      const own = newestOfMinor(autoscalers, minor)
      const autoscaler = own ?? (isEarly ? newestUpToMinor(autoscalers, minor) : undefined)
      if (name !== undefined) skip(`already released: ${name}`)
      else if (autoscaler === undefined) skip(`no cluster-autoscaler for ${minor} yet`)
      else {
        include.push({
          'kubernetes-version': newest,
          arch,
          'autoscaler-version': own === undefined ? autoscaler : '',
        })
      }
    }
  }
  return { include, skipped }
}

const ARCH_WORDS: Readonly<Record<Arch, RegExp>> = {
  amd64: /amd64|x86[_-]64/i,
  arm64: /arm64|aarch64/i,
}

/** Whether a tag or file name means this version for this architecture: 1.33.1 is not in v1.33.10 or v1.33.1-rc.0. */
export function standsFor(name: string, version: Version, arch: Arch): boolean {
  const escaped = version.replaceAll('.', '\\.')
  const holdsVersion = new RegExp(`(?<![\\d.])${escaped}(?!\\.?\\d)(?!-(?:alpha|beta|rc)\\b)`).test(name)
  const named = (Object.keys(ARCH_WORDS) as Arch[]).filter((candidate) => ARCH_WORDS[candidate].test(name))
  return holdsVersion && (named.length === 0 || named.includes(arch))
}
