import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileFailure } from './errors.ts'
import { Programs } from './exec.ts'

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
 */
export async function withWorkspace<T>(
  parent: string,
  cancel: AbortSignal,
  body: (workspace: Workspace) => Promise<T>,
): Promise<T> {
  const failed = new AbortController()
  const signal = AbortSignal.any([cancel, failed.signal])
  const dir = await mkdtemp(join(parent, 'cks-iso-')).catch((thrown: unknown) => {
    throw fileFailure('Cannot make a working directory', parent, thrown)
  })
  const programs = new Programs(signal)
  try {
    return await body({ dir, programs, signal, stop: () => failed.abort() })
  } finally {
    failed.abort()
    await programs.stopAll()
    await rm(dir, { recursive: true, force: true, maxRetries: 3 })
  }
}
