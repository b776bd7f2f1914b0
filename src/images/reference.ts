import { Failure } from '../errors.ts'

/**
 * An image reference after normalisation: `docker.io/library/nginx:latest`, never `nginx`. Grammar and rules
 * are those of github.com/distribution/reference, which containerd, CRI and kubelet use.
 */
export interface ImageReference {
  /** Registry host with optional port, such as `registry.k8s.io` or `localhost:5000`. */
  readonly domain: string
  /** Repository path below the registry, such as `library/nginx`. */
  readonly path: string
  /** Present unless the text names a digest alone. */
  readonly tag?: string
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest?: string
}

const DOMAIN_LABEL = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?'
const DOMAIN = new RegExp(`^(?:${DOMAIN_LABEL}(?:\\.${DOMAIN_LABEL})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?$`)
const PATH_PART = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
const PATH = new RegExp(`^${PATH_PART}(?:/${PATH_PART})*$`)
const TAG = /^\w[\w.-]{0,127}$/
const DIGEST = /^sha256:[a-f0-9]{64}$/
/** An image ID, which distribution/reference refuses as a name. */
const IDENTIFIER = /^[a-f0-9]{64}$/
const LONGEST_REPOSITORY = 255

/**
 * Reads a reference as kubelet does: `nginx` is `docker.io/library/nginx:latest`; the first part is a registry
 * only when it holds a dot, a colon or an upper-case letter, or is `localhost`.
 * @returns undefined when the text is no image reference
 */
export function tryReference(text: string): ImageReference | undefined {
  if (IDENTIFIER.test(text)) return undefined
  const at = text.indexOf('@')
  const digest = at < 0 ? undefined : text.slice(at + 1)
  if (digest !== undefined && !DIGEST.test(digest)) return undefined
  const named = at < 0 ? text : text.slice(0, at)
  const colon = named.indexOf(':', named.lastIndexOf('/') + 1)
  const tag = colon < 0 ? undefined : named.slice(colon + 1)
  if (tag !== undefined && !TAG.test(tag)) return undefined

  const { domain, path } = splitRepository(colon < 0 ? named : named.slice(0, colon))
  if (!DOMAIN.test(domain) || !PATH.test(path)) return undefined
  if (domain.length + 1 + path.length > LONGEST_REPOSITORY) return undefined
  return {
    domain,
    path,
    ...(tag !== undefined ? { tag } : digest === undefined ? { tag: 'latest' } : {}),
    ...(digest !== undefined ? { digest } : {}),
  }
}

/** @throws Failure when the text is no image reference; `where` names the manifest or program it came from */
export function parseReference(text: string, where: string): ImageReference {
  const reference = tryReference(text)
  if (reference === undefined) {
    throw new Failure(
      `${JSON.stringify(text)} in ${where} is no image reference`,
      'An image reference reads [registry/]path[:tag][@sha256:digest]; correct it there, or choose another version of that source.',
    )
  }
  return reference
}

function splitRepository(repository: string): { domain: string; path: string } {
  const slash = repository.indexOf('/')
  const first = repository.slice(0, Math.max(slash, 0))
  const isRegistry = slash > 0 && (/[.:A-Z]/.test(first) || first === 'localhost')
  const domain = isRegistry ? first : 'docker.io'
  const path = isRegistry ? repository.slice(slash + 1) : repository
  if (domain !== 'docker.io' && domain !== 'index.docker.io') return { domain, path }
  return { domain: 'docker.io', path: path.includes('/') ? path : `library/${path}` }
}

/** `registry/path` without tag and digest. */
export function repositoryOf(reference: ImageReference): string {
  return `${reference.domain}/${reference.path}`
}

/** The whole reference, tag and digest both when it has both. */
export function formatReference(reference: ImageReference): string {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`
  const digest = reference.digest === undefined ? '' : `@${reference.digest}`
  return `${repositoryOf(reference)}${tag}${digest}`
}

/**
 * The name under which CRI looks an image up: a tag beside a digest is dropped
 * (containerd's CRI plug-in, ParseDockerRef).
 */
export function lookupName(reference: ImageReference): string {
  return reference.digest === undefined
    ? formatReference(reference)
    : `${repositoryOf(reference)}@${reference.digest}`
}

/** The last part of the repository path, such as `kube-apiserver`. */
export function lastPathPart(reference: ImageReference): string {
  return reference.path.slice(reference.path.lastIndexOf('/') + 1)
}

/** A tag that names one release: it holds a digit and is no branch or moving name such as `latest` or `main`. */
export function hasFixedVersion(reference: ImageReference): boolean {
  return reference.digest !== undefined || /\d/.test(reference.tag ?? '')
}
