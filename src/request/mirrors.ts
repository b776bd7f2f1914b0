import { Failure } from '../errors.ts'

/** One line of the input `mirrors`: what the world calls it, and where this build takes it from. */
export interface Mirror {
  /** An https URL prefix without a trailing slash, or a registry host. */
  readonly from: string
  /** The replacement URL without a trailing slash. */
  readonly to: string
}

/** How containerd reaches a mirrored registry. */
export interface RegistryMirror {
  /** Registry host as image references name it, such as `docker.io`. */
  readonly host: string
  /** Base URL of the mirror without a trailing slash. */
  readonly base: string
  /** True when the base has a path: it then stands in place of `/v2` (containerd's `override_path`). */
  readonly overridePath: boolean
}

const HOST = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d+)?$/i

/**
 * Reads the input `mirrors`: a mirror a line, blank lines and `#` comments left out.
 * @throws Failure naming the line that cannot be read
 */
export function parseMirrors(text: string): readonly Mirror[] {
  const mirrors: Mirror[] = []
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.replace(/(^|\s)#.*$/, '').trim()
    if (line === '') continue
    const bad = (why: string): Failure =>
      new Failure(
        `mirrors: line ${index + 1} (${JSON.stringify(line)}): ${why}`,
        'Write each line as: <https URL prefix or registry host> <replacement URL>.',
      )
    if (hasUser(line)) {
      throw new Failure(
        `mirrors: line ${index + 1} holds a user or password in a URL (not shown here)`,
        'Passwords in mirrors are not supported: let a proxy on this network add them, or allow this machine to read.',
      )
    }
    const [from = '', to = '', ...rest] = line.split(/\s+/)
    if (to === '' || rest.length > 0) throw bad('two words are needed, what is replaced and its replacement')
    if (!HOST.test(from) && !isUrl(from, ['https:']))
      throw bad(`${from} is neither an https URL nor a registry host`)
    if (!isUrl(to, ['https:', 'http:'])) throw bad(`${to} is no http or https URL`)
    const mirror = { from: withoutSlash(from), to: withoutSlash(to) }
    if (mirrors.some((other) => other.from === mirror.from)) throw bad(`${from} has a mirror already`)
    mirrors.push(mirror)
  }
  return mirrors
}

/** Where a URL is really fetched: the longest prefix that ends at a path boundary wins; no match, no change. */
export function mirroredUrl(mirrors: readonly Mirror[], url: string): string {
  const fitting = mirrors.filter(({ from }) => from.includes('://') && isPrefix(from, url))
  const [longest] = fitting.toSorted((a, b) => b.from.length - a.from.length)
  return longest === undefined ? url : `${longest.to}${url.slice(longest.from.length)}`
}

/** The mirrors that stand for registries. */
export function registryMirrors(mirrors: readonly Mirror[]): readonly RegistryMirror[] {
  return mirrors
    .filter(({ from }) => !from.includes('://'))
    .map(({ from, to }) => ({ host: from, base: to, overridePath: new URL(to).pathname !== '/' }))
}

function isPrefix(prefix: string, url: string): boolean {
  return url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)))
}

function isUrl(text: string, protocols: readonly string[]): boolean {
  return URL.canParse(text) && protocols.includes(new URL(text).protocol)
}

/** Whether a text holds a URL with a user or password, which must not reach a log. */
export function hasUser(text: string): boolean {
  return /:\/\/[^/\s]*@/.test(text)
}

/**
 * Refuses what cannot name one file or URL. Looks for passwords first, so that no message shows one.
 * @param about `what` lies there, and which `kinds` of sources the input takes, for messages
 * @throws Failure naming the input
 */
export function requirePlainSource(
  text: string,
  about: { readonly input: string; readonly what: string; readonly kinds: string },
): void {
  const { input, what, kinds } = about
  if (hasUser(text)) {
    throw new Failure(
      `${input}: the URL holds a user or password (not shown here)`,
      `Download the ${what} in a step before, and set ${input} to the path of the file.`,
    )
  }
  if (/\p{Cc}/u.test(text)) {
    throw new Failure(
      `${input}: ${JSON.stringify(text)} holds a line end or control character`,
      `Set ${input} to one ${kinds}.`,
    )
  }
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, '')
}
