import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { type BuildResult, build } from '../src/build.ts'
import { parseRecord } from '../src/record/record.ts'
import { readRequest } from '../src/request/read.ts'
import type { SettingValues } from '../src/request/settings.ts'
import { type KeptLog, keptLog } from './log.ts'
import type { Upstream } from './upstream/upstream.ts'

const run = promisify(execFile)

/** A directory for one test file, with an output folder and a folder for temporary files. */
export interface Bench {
  readonly dir: string
  readonly out: string
  readonly temp: string
  close(): Promise<void>
}

export async function makeBench(): Promise<Bench> {
  const dir = await mkdtemp(join(tmpdir(), 'cks-test-'))
  const [out, temp] = [join(dir, 'out'), join(dir, 'temp')]
  await Promise.all([mkdir(out), mkdir(temp)])
  return { dir, out, temp, close: async () => await rm(dir, { recursive: true, force: true }) }
}

/** Builds against an upstream, in this process. */
export async function buildFrom(
  upstream: Upstream,
  bench: Bench,
  values: SettingValues,
  cancel: AbortSignal = new AbortController().signal,
): Promise<BuildResult & { log: KeptLog }> {
  const log = keptLog()
  const result = await attempt(upstream, bench, values, log, cancel)
  return { ...result, log }
}

/** As {@link buildFrom}, for a build whose log is looked at though it fails. */
export async function attempt(
  upstream: Upstream,
  bench: Bench,
  values: SettingValues,
  log: KeptLog,
  cancel: AbortSignal = new AbortController().signal,
): Promise<BuildResult> {
  const request = await readRequest(
    {
      ...values,
      mirrors: `${upstream.mirrors}\n${values.mirrors ?? ''}`,
      'output-dir': values['output-dir'] ?? bench.out,
    },
    { cwd: bench.dir, tempDir: bench.temp, log, signal: cancel },
  )
  return await build(request, { log, cancel, tempDir: bench.temp, pauses: [10, 20, 30] })
}

/** An ISO as read back by a tool that did not write it. */
export interface ReadIso {
  readonly dir: string
  /** Paths of all files, sorted. */
  readonly files: readonly string[]
  text(path: string): Promise<string>
  /** The objects of a manifest. */
  objects(path: string): Promise<readonly KubernetesObject[]>
  record(): Promise<ReturnType<typeof parseRecord>>
  /** The names that an archive gives its image on import. */
  names(archive: string): Promise<readonly string[]>
}

export interface KubernetesObject {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly [key: string]: unknown
}

/** Unpacks an ISO with bsdtar, which is libarchive: neither xorriso nor our reader. */
export async function readIso(path: string, bench: Bench): Promise<ReadIso> {
  const dir = await mkdtemp(join(bench.dir, 'iso-'))
  await run('bsdtar', ['-xf', path, '-C', dir])
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1))
    .toSorted()
  const text = async (file: string) => await readFile(join(dir, file), 'utf8')
  return {
    dir,
    files,
    text,
    objects: async (file) =>
      (await text(file))
        .split(/^---\s*$/m)
        .map((document) => parse(document, { merge: true, uniqueKeys: false }))
        .filter((object) => object !== null),
    record: async () => parseRecord(await text('versions.txt'), 'versions.txt'),
    names: async (archive) => {
      const { stdout } = await run('bsdtar', ['-xOf', join(dir, 'docker', archive), 'index.json'])
      const index: { manifests: { annotations: Record<string, string> }[] } = JSON.parse(stdout)
      return index.manifests
        .map(({ annotations }) => annotations['io.containerd.image.name'] ?? '')
        .toSorted()
    },
  }
}
