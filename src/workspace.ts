import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileFailure } from './errors.ts'
import { killMarked, Programs } from './exec.ts'

/** What a build borrows from the machine, all of it given back at the end. */
export interface Workspace {
  /** A fresh directory that only this build uses. */
  readonly dir: string
  readonly programs: Programs
  /** Fires when the build was cancelled or one of its parts has failed: the other parts stop then. */
  readonly signal: AbortSignal
  /** Fires the signal: called by a part that fails. */
  readonly stop: () => void
}

/**
 * Lends a workspace to `body`. Whatever happens in it, afterwards its programs have ended and its directory is
 * gone.
 * @param parent the directory in which the workspace is made, which must exist
 * @param cancel fires when the user cancels
 * @param runId a UUID to mark its programs with; absent: one of its own
 */
export async function withWorkspace<T>(
  parent: string,
  cancel: AbortSignal,
  body: (workspace: Workspace) => Promise<T>,
  runId?: string,
): Promise<T> {
  const failed = new AbortController()
  const signal = AbortSignal.any([cancel, failed.signal])
  const dir = await mkdtemp(join(parent, 'cks-iso-')).catch((thrown: unknown) => {
    throw fileFailure('Cannot make a working directory', parent, thrown)
  })
  const programs = new Programs(signal, runId)
  try {
    return await body({ dir, programs, signal, stop: () => failed.abort() })
  } finally {
    failed.abort()
    await programs.stopAll()
    await removeAll([dir])
  }
}

/**
 * Ends and removes what is left of a run that was killed, and so could not do it itself.
 * @param runId that its programs are marked with
 * @param dirs that were its own; missing ones are fine
 */
export async function sweep(runId: string, dirs: readonly string[]): Promise<void> {
  await killMarked(runId)
  await removeAll(dirs)
}

async function removeAll(dirs: readonly string[]): Promise<void> {
  for (const dir of dirs) await rm(dir, { recursive: true, force: true, maxRetries: 3 })
}
