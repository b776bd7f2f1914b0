import { Downloads } from '../fetch/download.ts'
import type { Log } from '../log.ts'
import { withWorkspace } from '../workspace.ts'
import type { Matrix } from './plan.ts'
import type { MatrixRequest } from './request.ts'
import { resolveMatrix } from './resolve.ts'

/**
 * The jobs to run for a request.
 * @throws Failure saying what failed, on what, and what to do; Cancelled
 */
export async function findJobs(
  request: MatrixRequest,
  environment: {
    readonly log: Log
    /** Fires when the user cancels. */
    readonly cancel: AbortSignal
    /** An existing directory. */
    readonly tempDir: string
    /** Pauses between tries, in milliseconds. */
    readonly pauses?: readonly number[]
  },
): Promise<Matrix> {
  const { log, cancel, tempDir, pauses } = environment
  const optional = pauses === undefined ? {} : { pauses }
  return await withWorkspace(tempDir, cancel, async (workspace) => {
    const downloads = new Downloads({ mirrors: request.mirrors, log, signal: workspace.signal, ...optional })
    return await resolveMatrix(request, { workspace, downloads, log, ...optional })
  })
}
