import { join } from 'node:path'
import pMap from 'p-map'
import { parse } from 'semver'
import { Failure } from '../errors.ts'
import { type Candidates, type Downloads, isNotFound } from '../fetch/download.ts'
import { listRefs } from '../fetch/git.ts'
import type { Log } from '../log.ts'
import { releasesOf } from '../plan/releases.ts'
import { REPOSITORIES, stableVersionUrl } from '../plan/urls.ts'
import { compareMinors, minorOf, parseVersion, type Version } from '../request/version.ts'
import { together } from '../together.ts'
import type { Workspace } from '../workspace.ts'
import { type Matrix, planMatrix } from './plan.ts'
import type { MatrixRequest } from './request.ts'

/** What finding out borrows. */
export interface MatrixContext {
  readonly workspace: Workspace
  readonly downloads: Downloads
  readonly log: Log
  /** Pauses between tries, in milliseconds. */
  readonly pauses?: readonly number[]
}

const AT_ONCE = 6

/** Finds out what is there to build, and plans the jobs. @throws Failure; Cancelled */
export async function resolveMatrix(request: MatrixRequest, context: MatrixContext): Promise<Matrix> {
  const [minors, autoscalers, tags] = await together(
    [newestOfMinors(request, context), autoscalerReleases(request, context), releasedTags(request, context)],
    context.workspace.stop,
  )
  return planMatrix({ minors, archs: request.archs, autoscalers, released: [...request.released, ...tags] })
}

async function newestOfMinors(
  request: MatrixRequest,
  context: MatrixContext,
): Promise<readonly { readonly minor: string; readonly newest: Version | undefined }[]> {
  const minors =
    request.minors.kind === 'listed'
      ? request.minors.minors.toSorted((a, b) => compareMinors(b, a))
      : await newestMinors(request.minors.count, request.includePrereleases, context)
  return await pMap(
    minors,
    async (wanted) =>
      parse(wanted) === null
        ? { minor: wanted, newest: await newestVersion(wanted, request.includePrereleases, context) }
        : { minor: minorOf(wanted), newest: wanted },
    { concurrency: AT_ONCE },
  )
}

/** The newest minors, the newest first. */
async function newestMinors(
  count: number,
  includePrereleases: boolean,
  context: MatrixContext,
): Promise<readonly string[]> {
  const url = `https://dl.k8s.io/release/${includePrereleases ? 'latest' : 'stable'}.txt`
  const newest = await versionFrom([{ url }], 'the newest Kubernetes', 'minors', context)
  const [major = 0, minor = 0] = minorOf(newest).split('.').map(Number)
  return Array.from({ length: Math.min(count, minor + 1) }, (_, index) => `${major}.${minor - index}`)
}

/** The newest release of a minor, else its newest pre-release where those count. */
async function newestVersion(
  minor: string,
  includePrereleases: boolean,
  context: MatrixContext,
): Promise<Version | undefined> {
  const stable = { url: stableVersionUrl(minor) }
  const candidates: Candidates = includePrereleases
    ? [stable, { url: `https://dl.k8s.io/release/latest-${minor}.txt` }]
    : [stable]
  try {
    const version = await versionFrom(candidates, `the newest Kubernetes ${minor}`, 'minors', context)
    if (minorOf(version) !== minor) throw notTheVersion(stable.url, version, 'minors')
    return version
  } catch (thrown) {
    if (thrown instanceof Failure && isNotFound(thrown.cause)) return undefined
    throw thrown
  }
}

async function versionFrom(
  candidates: Candidates,
  what: string,
  input: string,
  { downloads, workspace }: MatrixContext,
): Promise<Version> {
  const scratch = join(workspace.dir, what.replaceAll(' ', '-'))
  const { text, url } = await downloads.text({ what, input, candidates }, scratch)
  const version = text.trim()
  if (!/^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$/.test(version)) throw notTheVersion(url, version, input)
  return parseVersion(input, version)
}

function notTheVersion(url: string, text: string, input: string): Failure {
  return new Failure(
    `${url} should name a version of Kubernetes, but says ${JSON.stringify(text.slice(0, 80))}`,
    `Run again; if it stays, open that URL, and look at the input ${input} and at mirrors.`,
  )
}

async function autoscalerReleases(
  request: MatrixRequest,
  context: MatrixContext,
): Promise<readonly Version[]> {
  const refs = await listTags(REPOSITORIES.autoscaler, 'cluster-autoscaler-*', 'mirrors', request, context)
  return releasesOf(refs, 'refs/tags/cluster-autoscaler-')
}

async function releasedTags(request: MatrixRequest, context: MatrixContext): Promise<readonly string[]> {
  const listings = await pMap(request.repositories, (repository) =>
    listTags(repository, '*', 'released', request, context),
  )
  return listings.flat().map(({ name }) => name.replace(/^refs\/tags\//, ''))
}

async function listTags(
  repository: string,
  pattern: string,
  input: string,
  { mirrors }: MatrixRequest,
  { workspace, log, pauses }: MatrixContext,
) {
  return await listRefs(repository, [`refs/tags/${pattern}`], {
    ...workspace,
    log,
    mirrors,
    input,
    ...(pauses === undefined ? {} : { pauses }),
  })
}
