import pMap from 'p-map'
import { formatReference, parseReference } from '../../src/images/reference.ts'
import { corpusFile } from './corpus-files.ts'
import type { ImageSpec } from './images.ts'
import { type Padding, type Page, publish } from './pages.ts'
import { type PushedImage, type Registry, startRegistry } from './registry.ts'
import { RELEASES, type Releases } from './releases.ts'
import { type Answer, startServer, type UpstreamFault, type UpstreamRequest } from './server.ts'

export type { Releases } from './releases.ts'
export type { UpstreamFault, UpstreamRequest } from './server.ts'

export interface UpstreamOptions {
  /** Versions to publish in place of the usual ones, project by project. */
  readonly releases?: Partial<Releases>
  /** Directory of real manifests and tag lists: what is there is served in place of our own. */
  readonly corpus?: string
  /** Makes files as large as real ones; they are tiny otherwise. */
  readonly padding?: Padding
  /** How the image of a reference is made, where a test does not push it itself. */
  readonly imageSpec?: (reference: string) => ImageSpec
}

/** The internet on loopback: the files, repositories and registries that a build reads. */
export interface Upstream {
  /** `http://127.0.0.1:PORT`; `https://host/path` is answered at `/host/path` below it. */
  readonly base: string
  /** Text of the input `mirrors` that leads a build here. */
  readonly mirrors: string
  /** Every registry in one. Images are in it from when a manifest or kubeadm that names them was fetched. */
  readonly registry: Registry
  /** Files and git listings that were asked for so far. */
  readonly requests: readonly UpstreamRequest[]
  /** How much was asked for so far. */
  counts(): UpstreamCounts
  /** Publishes something under an https URL, in place of what is there or of a 404. */
  put(url: string, body: string | Buffer, answer?: Omit<Answer, 'body'>): void
  /** Lets something go wrong with an https URL, for the next so many requests or for all. */
  fault(url: string, fault: UpstreamFault, times?: number): void
  /** Takes back what `put` and `fault` did. */
  restore(): void
  /** Pushes the images of everything that is published, so that no later request has to wait for them. */
  pushAll(): Promise<void>
  /** Forgets what was asked for so far, of the registry too. */
  clearRequests(): void
  close(): Promise<void>
}

export interface UpstreamCounts {
  /** Answers with a file; a redirect does not count. */
  readonly files: number
  /** Listings of git references. */
  readonly listings: number
  /** Manifests and blobs that were fetched from the registry, not only asked about. */
  readonly manifests: number
  readonly blobs: number
}

const ORIGINS = ['dl.k8s.io', 'github.com', 'raw.githubusercontent.com', 'manifests.example']
const REGISTRIES = [
  ...['docker.io', 'registry.k8s.io', 'quay.io', 'ghcr.io', 'public.ecr.aws', 'gcr.io', 'mcr.microsoft.com'],
  ...['registry.example', 'zarf.internal'],
]

/** Where downloads are redirected to, as the real hosts do. */
const REDIRECTS = [
  { from: /^https:\/\/dl\.k8s\.io\/release\//, to: 'cdn.dl.k8s.io' },
  {
    from: /^https:\/\/github\.com\/[^/]+\/[^/]+\/releases\/download\//,
    to: 'release-assets.githubusercontent.com',
  },
]

/** Pushes that run beside each other. */
const PUSHES = 4

/** Starts an upstream. Give it back with `close`. */
export async function startUpstream(options: UpstreamOptions = {}): Promise<Upstream> {
  const { corpus, padding = {}, imageSpec = usualImage } = options
  const registry = await startRegistry()
  const pushed = new Map<string, Promise<PushedImage>>()
  const push: Registry['push'] = (reference, spec) => {
    const pushing = registry.push(reference, spec)
    pushed.set(tagOf(reference), pushing)
    return pushing
  }
  const ensure = (reference: string) => pushed.get(tagOf(reference)) ?? push(reference, imageSpec(reference))
  const ensureAll = async (page: Page) => {
    await pMap(new Set(await page.images()), ensure, { concurrency: PUSHES })
  }

  const puts = new Map<string, Answer>()
  const faults = new Map<string, { fault: UpstreamFault; left: number }>()
  try {
    const pages = await publish({
      releases: { ...RELEASES, ...options.releases },
      corpus,
      padding,
      digestOf: async (reference) => (await ensure(reference)).digest,
    })
    const server = await startServer(async (url) => {
      const fault = takeFault(faults, url)
      if (fault?.kind === 'answer') {
        return { answer: { ...fault, body: Buffer.from(fault.body ?? '') } }
      }
      const put = puts.get(url)
      if (put !== undefined) return { answer: put, fault }
      const source = unredirected(url)
      const page = pages.get(source) ?? (corpus === undefined ? undefined : await corpusPage(corpus, source))
      if (page === undefined) return { answer: { status: 404, body: Buffer.from('404: Not Found') }, fault }
      const location = fault === undefined ? redirected(url) : undefined
      if (location !== undefined) {
        const headers = { location: `${server.base}/${location}` }
        return { answer: { status: 302, headers, body: Buffer.alloc(0) } }
      }
      await ensureAll(page)
      return { answer: { body: await page.body() }, fault }
    })
    const { base, requests } = server
    return {
      base,
      mirrors: [
        ...ORIGINS.map((host) => `https://${host} ${base}/${host}`),
        registry.mirrors(...REGISTRIES),
        '',
      ].join('\n'),
      registry: { ...registry, push },
      requests,
      counts: () => countsOf(requests, registry),
      put: (url, body, answer = {}) => void puts.set(url, { ...answer, body: Buffer.from(body) }),
      fault: (url, fault, times = Number.POSITIVE_INFINITY) => void faults.set(url, { fault, left: times }),
      restore: () => {
        puts.clear()
        faults.clear()
      },
      pushAll: async () => {
        for (const page of pages.values()) await ensureAll(page)
      },
      clearRequests: () => {
        requests.length = 0
        registry.clearRequests()
      },
      close: async () => {
        server.close()
        await registry.close()
      },
    }
  } catch (thrown) {
    await registry.close()
    throw thrown
  }
}

/**
 * About as large as real ones, for measurements: three programs of 60 MB, archives of 30 MB, and the images of a
 * default build about 700 MB in all.
 */
export const REALISTIC_SIZES: Pick<UpstreamOptions, 'padding' | 'imageSpec'> = {
  padding: { program: 60_000_000, archive: 30_000_000 },
  imageSpec: (reference) => ({ platforms: ['linux/amd64'], padding: megabytesOf(reference) * 1_000_000 }),
}

/** Compressed size of the layers of one platform. */
function megabytesOf(reference: string): number {
  if (reference.includes('pause')) return 0.3
  if (/kube-|coredns|sig-storage/.test(reference)) return 25
  return 45
}

/** As the real registries have them: Docker's or OCI's media types, and often platforms that nobody asks for. */
function usualImage(reference: string): ImageSpec {
  const isWidespread = /coredns|pause|calico|flannel|cilium/.test(reference)
  return {
    platforms: ['linux/amd64', ...(isWidespread ? ['linux/386', 'linux/arm/v7'] : []), 'linux/arm64'],
    mediaTypes: reference.startsWith('registry.k8s.io/') ? 'docker' : 'oci',
    attestations: reference.startsWith('ghcr.io/'),
  }
}

/** `repository:tag`, by which an image is pushed. */
function tagOf(reference: string): string {
  const { digest: _, ...named } = parseReference(reference, 'a test')
  return formatReference(named)
}

function takeFault(
  faults: Map<string, { fault: UpstreamFault; left: number }>,
  url: string,
): UpstreamFault | undefined {
  const found = faults.get(url)
  if (found === undefined || found.left <= 0) return undefined
  found.left--
  return found.fault
}

/** A file of the corpus that is none of the usual add-ons. */
async function corpusPage(corpus: string, url: string): Promise<Page | undefined> {
  const file = await corpusFile(corpus, url)
  if (file === undefined) return undefined
  return { body: async () => file.body, images: async () => file.images }
}

/** Host and path that a download is redirected to; undefined where it is answered itself. */
function redirected(url: string): string | undefined {
  const to = REDIRECTS.find(({ from }) => from.test(url))?.to
  return to === undefined ? undefined : `${to}${new URL(url).pathname}`
}

/** The URL that was asked for before a redirect. */
function unredirected(url: string): string {
  return url
    .replace('https://cdn.dl.k8s.io/', 'https://dl.k8s.io/')
    .replace('https://release-assets.githubusercontent.com/', 'https://github.com/')
}

function countsOf(requests: readonly UpstreamRequest[], registry: Registry): UpstreamCounts {
  const answered = requests.filter(({ method, status }) => method === 'GET' && status === 200)
  const listings = answered.filter(({ url }) => url.endsWith('/info/refs')).length
  const heads = answered.filter(({ url }) => url.endsWith('/HEAD')).length
  const fetched = (kind: string) =>
    registry.requests.filter((request) => request.method === 'GET' && request.kind === kind).length
  return {
    files: answered.length - listings - heads,
    listings,
    manifests: fetched('manifest'),
    blobs: fetched('blob'),
  }
}
