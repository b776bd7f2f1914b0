import { Failure } from '../errors.ts'

/** Where pieces are kept between runs. */
export type CacheChoice = 'service' | 'tool-cache' | 'none'

/**
 * Reads the input `cache`.
 * @param environment RUNNER_ENVIRONMENT: `github-hosted` or `self-hosted`
 * @throws Failure
 */
export function parseCacheChoice(text: string, environment: string | undefined): CacheChoice {
  const word = text.trim().toLowerCase()
  if (word === 'service' || word === 'tool-cache') return word
  if (word === 'false') return 'none'
  // A machine of one's own stays as a rule, and its disk is nearer than GitHub.
  if (word === '' || word === 'true') return environment === 'self-hosted' ? 'tool-cache' : 'service'
  throw new Failure(
    `cache: ${JSON.stringify(text)} is no place to keep things`,
    'Set cache to true, service, tool-cache or false.',
  )
}
