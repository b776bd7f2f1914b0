import { compare, parse, prerelease } from 'semver'
import type { RemoteRef } from '../fetch/git.ts'
import { compareMinors, minorOf, type Version } from '../request/version.ts'

/**
 * The releases among a repository's tags, newest first. Only `<prefix>MAJOR.MINOR.PATCH` counts: other prefixes
 * (charts, other components) and pre-releases are no releases, and 1.33.10 is newer than 1.33.9.
 * @param prefix what stands before the version, such as `refs/tags/v`
 */
export function releasesOf(refs: readonly RemoteRef[], prefix: string): readonly Version[] {
  return refs
    .filter(({ name }) => name.startsWith(prefix))
    .map(({ name }) => name.slice(prefix.length))
    .filter((version) => parse(version)?.version === version && prerelease(version) === null)
    .toSorted((a, b) => compare(b, a))
}

/** The newest release of a minor, or undefined when it has none. */
export function newestOfMinor(releases: readonly Version[], minor: string): Version | undefined {
  return releases.find((version) => minorOf(version) === minor)
}

/** The newest release of a minor, else of the nearest lower minor that has one. */
export function newestUpToMinor(releases: readonly Version[], minor: string): Version | undefined {
  return releases.find((version) => compareMinors(minorOf(version), minor) <= 0)
}
