import { getState, saveState } from '@actions/core'

/** What the post step has to know of the main step: a UUID, and directories that were its own. */
const NAMES = ['run-id', 'scratch-dir', 'cache-dir', 'staging-dir'] as const

type StateName = (typeof NAMES)[number]

/** Hands something to the post step. */
export function remember(name: StateName, value: string): void {
  saveState(name, value)
}

/** What the main step remembered; undefined when it came to nothing. */
export function recall(): { readonly runId: string; readonly dirs: readonly string[] } | undefined {
  const [runId = '', ...dirs] = NAMES.map((name) => getState(name))
  return runId === '' ? undefined : { runId, dirs: dirs.filter((dir) => dir !== '') }
}
