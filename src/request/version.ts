import { parse } from 'semver'
import { Failure } from '../errors.ts'

/** An exact version without `v`, such as `1.33.13` or `1.3.0-rc1`. */
export type Version = string

/** The Kubernetes to build: an exact version, or the newest patch of a minor such as `1.33`. */
export type KubernetesRequest =
  | { readonly kind: 'exact'; readonly version: Version }
  | { readonly kind: 'minor'; readonly minor: string }

const MINOR = /^(0|[1-9]\d*)\.(0|[1-9]\d*)$/

/**
 * Reads a version with or without `v`.
 * @param input the input it came from, for the error
 * @throws Failure for anything but MAJOR.MINOR.PATCH with an optional pre-release
 */
export function parseVersion(input: string, text: string): Version {
  const version = withoutV(text)
  const parsed = parse(version)
  if (parsed === null || parsed.version !== version) {
    throw new Failure(
      `${input}: ${JSON.stringify(text)} is no version`,
      `Set ${input} to a version such as 1.2.3 or v1.2.3.`,
    )
  }
  return version
}

/**
 * Reads `1.33.13`, `v1.33.13`, `refs/tags/v1.33.13` or a minor such as `1.33`.
 * @throws Failure for anything else
 */
export function parseKubernetesVersion(text: string): KubernetesRequest {
  const version = withoutV(text.trim().replace(/^refs\/tags\//, ''))
  if (MINOR.test(version)) return { kind: 'minor', minor: version }
  if (parse(version)?.version === version) return { kind: 'exact', version }
  throw new Failure(
    `kubernetes-version: ${JSON.stringify(text)} is no Kubernetes version`,
    'Set kubernetes-version to a release such as 1.33.13, or to a minor such as 1.33 for its newest patch.',
  )
}

/** `1.33` of `1.33.13`. */
export function minorOf(version: Version): string {
  return version.split('.').slice(0, 2).join('.')
}

/** Numeric order of two minors such as `1.9` and `1.10`: negative when `a` is older. */
export function compareMinors(a: string, b: string): number {
  const [majorA = 0, minorA = 0] = a.split('.').map(Number)
  const [majorB = 0, minorB = 0] = b.split('.').map(Number)
  return majorA - majorB || minorA - minorB
}

function withoutV(text: string): string {
  return text.trim().replace(/^v/i, '')
}
