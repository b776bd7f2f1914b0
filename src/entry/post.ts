import { info, warning } from '@actions/core'
import { reasonOf } from '../errors.ts'
import { recall } from '../github/state.ts'
import { sweep } from '../workspace.ts'

/** The post step of the action: nothing of a main step that was killed stays on the runner. */
try {
  const run = recall()
  if (run === undefined) info('The main step did not begin: there is nothing to clean up.')
  else await sweep(run.runId, run.dirs)
} catch (thrown) {
  warning(`Cannot clean up after the main step: ${reasonOf(thrown)}`)
}
