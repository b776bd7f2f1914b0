import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { DefaultArtifactClient, GHESNotSupportedError } from '@actions/artifact'
import { Failure, reasonOf } from '../errors.ts'
import type { Log } from '../log.ts'

/** What an upload left on the workflow run's page. */
export interface UploadedArtifact {
  /** The artifact's name, which is also the name that a download gets. */
  readonly name: string
  readonly id: number
  /** In bytes. */
  readonly size: number
  /** Where people download it; empty where the runner does not say which run this is. */
  readonly url: string
}

export interface UploadOptions {
  readonly log: Log
  /** An existing directory. */
  readonly tempDir: string
  /** Days that GitHub keeps them; absent: the repository's own setting. */
  readonly retentionDays?: number
}

/** What GitHub keeps at most, in days. */
const LONGEST_RETENTION = 400

/**
 * Uploads files as artifacts of their own, byte for byte and not zipped, one after another.
 * @param files each with the name that its artifact gets
 * @returns undefined outside a runner, where there is nowhere to upload to
 * @throws Failure naming the artifact and the input to set
 */
export async function uploadArtifacts(
  files: readonly { readonly path: string; readonly name: string }[],
  options: UploadOptions,
): Promise<readonly UploadedArtifact[] | undefined> {
  const { ACTIONS_RUNTIME_TOKEN, ACTIONS_RESULTS_URL } = process.env
  if (!ACTIONS_RUNTIME_TOKEN || !ACTIONS_RESULTS_URL) {
    options.log.info('This is no job of GitHub Actions: no artifact is uploaded.')
    return undefined
  }
  const uploaded: UploadedArtifact[] = []
  for (const { path, name } of files) uploaded.push(await upload(path, name, options))
  return uploaded
}

/**
 * Reads the input retention-days.
 * @returns undefined for blank and for 0, which mean the repository's own setting
 * @throws Failure for anything but a whole number up to 400
 */
export function parseRetentionDays(text: string): number | undefined {
  const trimmed = text.trim()
  const days = Number(trimmed)
  if (!/^\d{0,3}$/.test(trimmed) || days > LONGEST_RETENTION) {
    throw new Failure(
      `retention-days: ${JSON.stringify(text)} is no number of days`,
      `Set retention-days to a whole number from 1 to ${LONGEST_RETENTION}, or leave it out for the repository's own setting.`,
    )
  }
  return days === 0 ? undefined : days
}

/**
 * Reads the input artifact-name.
 * @returns undefined when it is blank
 * @throws Failure for a name that GitHub would refuse, or that would not do as a file name
 */
export function parseArtifactName(text: string): string | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  if (!/^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$/.test(trimmed)) {
    throw new Failure(
      `artifact-name: ${JSON.stringify(text)} cannot name an artifact`,
      'Use letters, digits, dot, underscore, plus and dash, at most 200 of them.',
    )
  }
  return trimmed
}

async function upload(path: string, name: string, options: UploadOptions): Promise<UploadedArtifact> {
  // An artifact that is not zipped takes its name from its file.
  const dir = await mkdtemp(join(options.tempDir, 'cks-iso-artifact-'))
  try {
    const named = join(dir, name)
    await symlink(path, named)
    const { id, size } = await new DefaultArtifactClient().uploadArtifact(name, [named], dir, {
      skipArchive: true,
      ...(options.retentionDays === undefined ? {} : { retentionDays: options.retentionDays }),
    })
    if (id === undefined || size === undefined) throw new Error('the service gave no id')
    options.log.info(`${basename(path)} is uploaded as the artifact ${name}.`)
    return { name, id, size, url: urlOf(id) }
  } catch (thrown) {
    throw new Failure(
      `Cannot upload ${path} as the artifact ${name}: ${firstLine(reasonOf(thrown))}`,
      adviceFor(thrown),
      {
        cause: thrown,
      },
    )
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** The client wraps the errors of the service in plain ones, so their words are all there is to go by. */
function adviceFor(thrown: unknown): string {
  const reason = reasonOf(thrown)
  if (thrown instanceof GHESNotSupportedError) {
    return 'This GitHub server has no service for such artifacts: set upload-artifact to false, and take the ISO from iso-path in a later step.'
  }
  if (/quota/i.test(reason)) {
    return 'The storage for artifacts is used up: delete old ones, set retention-days lower, or set upload-artifact to false and take the ISO from iso-path.'
  }
  if (/\b409\b|already exists/i.test(reason)) {
    return 'Another job of this run, or an earlier try of this one, has uploaded under that name: set artifact-name (or build-name) to one that no other job uses.'
  }
  return 'Run the job again; if it stays, set upload-artifact to false, and take the ISO from iso-path in a later step.'
}

function urlOf(id: number): string {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_RUN_ID } = process.env
  if (!GITHUB_SERVER_URL || !GITHUB_REPOSITORY || !GITHUB_RUN_ID) return ''
  return `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}/actions/runs/${GITHUB_RUN_ID}/artifacts/${id}`
}

/** The client adds paragraphs of links to its errors. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}
