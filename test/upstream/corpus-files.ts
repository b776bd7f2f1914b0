import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { compare } from 'semver'
import { hasCode } from '../../src/errors.ts'
import { minorOf } from './releases.ts'

/** A file of the corpus, and the images that kubelet pulls for it. */
export interface CorpusFile {
  readonly body: Buffer
  readonly images: readonly string[]
}

const VERSION = /\d+\.\d+\.\d+(?:-[\w.]+)?/

/** The corpus' own file for an https URL; undefined when it has none. */
export async function corpusFile(corpus: string, url: string): Promise<CorpusFile | undefined> {
  const path = join(corpus, pathOf(url))
  const body = await readOptional(path)
  if (body === undefined) return undefined
  const images = (await readOptional(`${path}.images`))?.toString() ?? ''
  return { body, images: images.split('\n').filter((line) => line !== '') }
}

/**
 * As {@link corpusFile}, for a URL that exists upstream though its version is not in the corpus: then the file of the
 * newest version of the same minor, else of the newest lower version. Most files stay the same over many releases.
 */
export async function nearestCorpusFile(corpus: string, url: string): Promise<CorpusFile | undefined> {
  const exact = await corpusFile(corpus, url)
  const parts = pathOf(url).split('/')
  const index = parts.findIndex((part) => VERSION.test(part))
  const named = parts[index]
  const wanted = named === undefined ? undefined : VERSION.exec(named)?.[0]
  if (exact !== undefined || named === undefined || wanted === undefined) return exact

  const name = (version: string) => named.replace(wanted, version)
  const isNear = (version: string) => minorOf(version) === minorOf(wanted)
  const versions = (await readdir(join(corpus, ...parts.slice(0, index))).catch(() => []))
    .flatMap((entry) => VERSION.exec(entry)?.[0] ?? [])
    .filter((version) => isNear(version) || compare(version, wanted) < 0)
    .toSorted((a, b) => Number(isNear(b)) - Number(isNear(a)) || compare(b, a))
  for (const version of versions) {
    const file = await corpusFile(corpus, `https://${parts.with(index, name(version)).join('/')}`)
    if (file !== undefined) return file
  }
  return undefined
}

/** The references of `owner/name`, as `git ls-remote` lists them; undefined when the corpus has none. */
export async function corpusRefs(corpus: string, repository: string): Promise<string | undefined> {
  return (await readOptional(join(corpus, 'git', `${repository}.refs`)))?.toString()
}

function pathOf(url: string): string {
  return url.replace(/^https:\/\//, '')
}

async function readOptional(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path)
  } catch (thrown) {
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].some((code) => hasCode(thrown, code))) return undefined
    throw thrown
  }
}
