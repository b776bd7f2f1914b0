import { Failure } from '../errors.ts'
import { formatReference, hasFixedVersion, lastPathPart, tryReference } from '../images/reference.ts'
import type { Log } from '../log.ts'
import { MANIFEST_PATHS, type ManifestRole, type Plan } from '../plan/plan.ts'
import { autoscalerImage, ccmImage } from '../plan/urls.ts'
import { appliesHeadlamp } from '../request/request.ts'
import { requireAutoscalerPlaceholders, withAutoscalerPermissions } from './autoscaler.ts'
import { withOnlyImage, withPullPolicies, withReplacedImages } from './edit.ts'
import { imagesOf, imageUses } from './images.ts'
import { mentionedImages } from './mentions.ts'
import { operatorHint } from './operator.ts'
import { type Manifest, parseManifest } from './parse.ts'

/** A manifest as it goes onto the ISO. */
export interface PreparedManifest {
  /** Where it stands on the ISO; under two names where nodes ask for two. */
  readonly paths: readonly [string, ...string[]]
  readonly text: string
  /** The images that it needs, as written. */
  readonly images: readonly string[]
}

/**
 * Makes a manifest ready for nodes without internet: the images that the plan pins, no policy that always pulls, and
 * for the autoscaler the permissions that newer releases need.
 * @param source where the text came from: a URL or a file
 * @throws Failure when it is no manifest, or not of the shape that its edits rely on
 */
export function prepareManifest(
  role: ManifestRole,
  text: string,
  source: string,
  plan: Plan,
  log: Log,
): PreparedManifest {
  const original = parseManifest(text, source)
  for (const notice of original.notices) log.notice(notice)
  for (const { message, line } of original.warnings) log.warning(message, { file: source, line })

  const isHeadlamp = role === 'dashboard' && holdsHeadlamp(original)
  const manifest = withPullPolicies(pinned(role, original, plan, isHeadlamp))
  warnOfMovingImages(manifest, source, log)
  reportUnpacked(manifest, source, plan, log)
  if (role === 'dashboard' && !appliesHeadlamp(plan.cloudstack) && !holdsDashboard(manifest)) {
    log.warning(
      `CloudStack ${plan.cloudstack} waits for a pod of kubernetes-dashboard before it calls a new cluster ready, and ${source} brings none: set dashboard to kubernetes-dashboard, or cloudstack-version to 4.23 or later.`,
    )
  }
  return { paths: pathsOf(role, isHeadlamp), text: manifest.text, images: imagesOf(manifest) }
}

function pinned(role: ManifestRole, manifest: Manifest, plan: Plan, isHeadlamp: boolean): Manifest {
  if (role === 'autoscaler') {
    requireAutoscalerPlaceholders(manifest)
    return withAutoscalerPermissions(withOnlyImage(manifest, autoscalerImage(plan.versions.autoscaler)))
  }
  if (role === 'ccm') return withOnlyImage(manifest, ccmImage(plan.versions.ccm))
  if (isHeadlamp) return withReplacedImages(manifest, headlampPin(plan.versions.dashboard ?? ''))
  return manifest
}

/**
 * Headlamp's own manifest names `latest` at every release; the release's tag stands in the version or URL that the
 * manifest was chosen by.
 */
function headlampPin(dashboard: string): (reference: string) => string | undefined {
  const version = /(?:^headlamp@|\/v)(\d+\.\d+\.\d+)(?:\/|$)/.exec(dashboard)?.[1]
  return (text) => {
    const reference = tryReference(text)
    if (version === undefined || reference === undefined || lastPathPart(reference) !== 'headlamp')
      return undefined
    return hasFixedVersion(reference) ? undefined : formatReference({ ...reference, tag: `v${version}` })
  }
}

function holdsHeadlamp(manifest: Manifest): boolean {
  return namesImage(manifest, 'headlamp')
}

function holdsDashboard(manifest: Manifest): boolean {
  return imagesOf(manifest).some((text) => {
    const reference = tryReference(text)
    return reference !== undefined && /dashboard/.test(reference.path)
  })
}

function namesImage(manifest: Manifest, name: string): boolean {
  return imagesOf(manifest).some((text) => {
    const reference = tryReference(text)
    return reference !== undefined && lastPathPart(reference) === name
  })
}

/**
 * Node scripts up to 4.22, and those of later releases on an upgrade, apply dashboard.yaml by name; from 4.23 on
 * cluster creation looks for headlamp.yaml first.
 */
function pathsOf(role: ManifestRole, isHeadlamp: boolean): readonly [string, ...string[]] {
  const path = MANIFEST_PATHS[role]
  return isHeadlamp ? ['headlamp.yaml', path] : [path]
}

function warnOfMovingImages(manifest: Manifest, source: string, log: Log): void {
  for (const { reference: text, line } of imageUses(manifest)) {
    const reference = tryReference(text)
    if (reference === undefined) {
      throw new Failure(
        `${source}, line ${line}: ${JSON.stringify(text)} is no image reference`,
        'Correct the manifest, or choose another version of it: a node cannot pull that image.',
      )
    }
    if (!hasFixedVersion(reference)) {
      log.warning(
        `${text} in ${source} names no fixed version: the ISO gets what it points at now (its digest is in versions.txt), another build may get another.`,
        { file: source, line },
      )
    }
  }
}

function reportUnpacked(manifest: Manifest, source: string, plan: Plan, log: Log): void {
  const hint = operatorHint(manifest)
  if (hint !== undefined && plan.extraImages.length === 0) log.warning(hint, { file: source })
  const mentioned = mentionedImages(manifest)
  if (mentioned.length > 0) {
    const list = mentioned.map(({ reference, line, how }) => `${reference} (line ${line}, ${how})`).join(', ')
    log.notice(
      `${source} names images outside of pods, which are not packed: ${list}. Add those that the cluster needs to extra-images.`,
    )
  }
}
