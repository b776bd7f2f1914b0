/**
 * A signal that fires when the user cancels: Ctrl-C, or the runner's cancel, which sends SIGINT and some seconds later
 * SIGTERM. A second one does not cut the cleaning up short; it ends by itself.
 */
export function cancelSignal(): AbortSignal {
  const cancel = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => cancel.abort())
  return cancel.signal
}
