import { debug, group, info, notice, warning } from '@actions/core'
import type { Log, Place } from '../log.ts'

/** A log that the runner shows, with warnings and notices as annotations. */
export function runnerLog(): Log {
  return {
    info: (message) => info(harmless(message)),
    debug: (message) => debug(message),
    notice: (message) => notice(message),
    warning: (message, place) => warning(message, properties(place)),
    group: async (name, body) => await group(name, body),
  }
}

/**
 * Text from the network may hold what the runner takes for commands: `::add-mask::` at the start of a line, `##[group]`
 * anywhere in it (actions/runner, ActionCommand).
 */
function harmless(message: string): string {
  return message.replace(/^(\s*)::/gm, '$1 ::').replaceAll('##[', '## [')
}

function properties(place: Place | undefined): { file?: string; startLine?: number } {
  if (place === undefined) return {}
  return { file: place.file, ...(place.line === undefined ? {} : { startLine: place.line }) }
}
