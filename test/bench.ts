import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startContainerd } from '../src/images/containerd.ts'
import { parseRecord } from '../src/record/record.ts'
import { mirroredUrl, parseMirrors, registryMirrors } from '../src/request/mirrors.ts'
import { withWorkspace } from '../src/workspace.ts'
import { makeBench } from './harness.ts'
import { keptLog } from './log.ts'
import { startResultsService } from './results-service/results-service.ts'
import { REALISTIC_SIZES, startUpstream } from './upstream/upstream.ts'

/**
 * Three comparisons in one go, on one upstream on loopback with realistic sizes. Each prints seconds and their ratio.
 *
 * 1. A first build of ours, and the way of the former script, which did one thing after the other: each file, then for
 *    each image fetch and export, then the ISO. The serial side neither verifies, nor unpacks as the script did, so it
 *    is on the fast side.
 * 2. The same build again, with what the first has left in the tool cache of this machine.
 * 3. The action, first and again, with the cache of a results service (azurite keeps its blobs).
 *
 * The stages that the first build prints tell the share of each, that of the check of the ISO too.
 */

const run = promisify(execFile)
const dist = join(import.meta.dirname, '../dist')
const rounds = Number(process.argv[2] ?? '3')

console.log('preparing an upstream of realistic sizes …')
const upstream = await startUpstream(REALISTIC_SIZES)
const bench = await makeBench()
try {
  await upstream.pushAll()
  const ratios = { serial: [] as number[], again: [] as number[], action: [] as number[] }
  for (let round = 1; round <= rounds; round++) {
    const cache = join(bench.dir, `cache-${round}`)
    const first = await timed(() => buildOnce(cache))
    const { iso, stages } = first.result
    const again = await timed(() => buildOnce(cache))
    const record = parseRecord(await readFile(iso.replace(/iso$/, 'versions.txt'), 'utf8'), iso)
    const size = Math.round((await stat(iso)).size / 1e6)
    const sources = record.files.map(({ source }) => source)
    const images = record.images.map(({ reference }) => reference)
    const serial = await serially(sources, images)
    console.log(`round ${round}: ${images.length} images, ISO of ${size} MB`)
    console.log(`  first build ${show(first)}: ${stages}`)
    console.log(
      `  serial way ${show({ seconds: serial })}; serial / ours ${(serial / first.seconds).toFixed(2)}`,
    )
    console.log(`  second build ${show(again)}: ${again.result.stages}`)
    console.log(`  second / first ${(again.seconds / first.seconds).toFixed(2)}`)
    const [cold, warm] = await actions()
    console.log(`  action: first ${show(cold)}, second ${show(warm)}`)
    console.log(`  second / first ${(warm.seconds / cold.seconds).toFixed(2)}`)
    ratios.serial.push(serial / first.seconds)
    ratios.again.push(again.seconds / first.seconds)
    ratios.action.push(warm.seconds / cold.seconds)
  }
  console.log(`medians of ${rounds}: serial / ours ${median(ratios.serial)}`)
  console.log(`  second / first: tool cache ${median(ratios.again)}, cache service ${median(ratios.action)}`)
} finally {
  await bench.close()
  await upstream.close()
}

interface Timed {
  readonly seconds: number
}

async function timed<T>(work: () => Promise<T>): Promise<Timed & { readonly result: T }> {
  const start = performance.now()
  const result = await work()
  return { seconds: (performance.now() - start) / 1000, result }
}

function show({ seconds }: Timed): string {
  return `${seconds.toFixed(1)} s`
}

function median(values: readonly number[]): string {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]?.toFixed(2) ?? 'none'
}

/** One build on the command line, in a process of its own: this one serves the upstream. */
async function buildOnce(cache: string): Promise<{ readonly iso: string; readonly stages: string }> {
  const args = ['build', '--kubernetes-version', '1.33.13', '--output-dir', bench.out]
  const { stdout, stderr } = await run(
    'node',
    [join(dist, 'cli.js'), ...args, '--mirrors', upstream.mirrors],
    { env: { ...process.env, XDG_CACHE_HOME: cache, RUNNER_TOOL_CACHE: '' }, maxBuffer: 1e8 },
  )
  return { iso: stdout.trim(), stages: stderr.match(/^.*(?=\(they overlap\))/m)?.[0].trim() ?? '' }
}

/** The action, twice in one repository. */
async function actions(): Promise<readonly [Timed, Timed]> {
  const service = await startResultsService()
  try {
    const env = {
      ...process.env,
      ...service.env,
      'INPUT_KUBERNETES-VERSION': '1.33.13',
      'INPUT_OUTPUT-DIR': bench.out,
      'INPUT_UPLOAD-ARTIFACT': 'false',
      INPUT_CACHE: 'service',
      INPUT_MIRRORS: upstream.mirrors,
      GITHUB_OUTPUT: '',
      GITHUB_WORKSPACE: bench.dir,
      RUNNER_TEMP: bench.temp,
    }
    const once = () => timed(() => run('node', [join(dist, 'index.js')], { env, maxBuffer: 1e8 }))
    return [await once(), await once()]
  } finally {
    await service.close()
  }
}

async function serially(urls: readonly string[], images: readonly string[]): Promise<number> {
  const mirrors = parseMirrors(upstream.mirrors)
  const dir = await mkdtemp(join(tmpdir(), 'serial-'))
  const tree = join(dir, 'tree')
  await mkdir(join(tree, 'docker'), { recursive: true })
  try {
    return await withWorkspace(dir, new AbortController().signal, async ({ programs }) => {
      const options = { what: 'serial', next: '', timeout: 600_000 }
      const containerd = await startContainerd({
        dir: join(dir, 'containerd'),
        programs,
        binaries: { containerd: 'containerd', ctr: 'ctr' },
        mirrors: registryMirrors(mirrors),
        log: keptLog(),
      })
      const start = performance.now()
      for (const [index, url] of urls.entries()) {
        const response = await fetch(mirroredUrl(mirrors, url))
        await writeFile(join(tree, `${index}`), Buffer.from(await response.arrayBuffer()))
      }
      for (const [index, image] of images.entries()) {
        const platform = ['--platform', 'linux/amd64']
        await containerd.ctr(
          ['content', 'fetch', ...platform, '--hosts-dir', containerd.hostsDir, image],
          options,
        )
        const archive = join(tree, 'docker', `${index}.tar`)
        const exported = await containerd.ctr(['image', 'export', ...platform, archive, image], options)
        if (exported.exitCode !== 0) throw new Error(exported.stderr)
        await containerd.ctr(['image', 'rm', '--sync', image], options)
      }
      await run('xorriso', [
        '-as',
        'mkisofs',
        '-quiet',
        '-o',
        join(dir, 'iso'),
        '-J',
        '-R',
        '-l',
        '-V',
        'CDROM',
        tree,
      ])
      return (performance.now() - start) / 1000
    })
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
