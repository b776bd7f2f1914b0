import type { Log, Place } from '../src/log.ts'

/** A group as a log runs it that does not show groups. */
export const runGroup = async <T>(_name: string, body: () => Promise<T>): Promise<T> => await body()

/** A log that keeps what it is told. */
export interface KeptLog extends Log {
  readonly infos: string[]
  readonly notices: string[]
  readonly warnings: { message: string; place: Place | undefined }[]
}

export function keptLog(): KeptLog {
  const infos: string[] = []
  const notices: string[] = []
  const warnings: { message: string; place: Place | undefined }[] = []
  return {
    infos,
    notices,
    warnings,
    info: (message) => infos.push(message),
    notice: (message) => notices.push(message),
    warning: (message, place) => warnings.push({ message, place }),
    debug: () => {},
    group: runGroup,
  }
}
