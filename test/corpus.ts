import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const wanted = resolve(root, process.env.CKS_ISO_CORPUS ?? '../shared/corpus')

/**
 * The folder of real upstream manifests and tag lists, laid out by host and URL path; undefined where it is
 * absent, as in a plain clone: tests over it are skipped there.
 */
export const corpusDir: string | undefined = existsSync(wanted) ? wanted : undefined

/** A real manifest, the images that kubelet pulls for it, and what else it names (`.extra`, class `new`). */
export interface CorpusManifest {
  /** Path inside the corpus, which is its URL without `https://`. */
  readonly name: string
  readonly text: string
  readonly images: readonly string[]
  readonly mentions: readonly string[]
}

/** Every manifest of the corpus that has its true image list beside it; none without a corpus. */
export function corpusManifests(): readonly CorpusManifest[] {
  if (corpusDir === undefined) return []
  const directory = corpusDir
  const lines = (path: string) => readFileSync(path, 'utf8').split('\n').filter(Boolean)
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.images'))
    .toSorted()
    .map((path) => {
      const name = path.slice(0, -'.images'.length)
      const file = join(directory, name)
      const extra = existsSync(`${file}.extra`) ? lines(`${file}.extra`) : []
      const rows = extra.map((row) => row.split('\t'))
      return {
        name,
        text: readFileSync(file, 'utf8'),
        images: lines(join(directory, path)),
        mentions: rows.flatMap(([reference, kind]) => (kind === 'new' && reference ? [reference] : [])),
      }
    })
}
