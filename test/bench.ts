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
import { REALISTIC_SIZES, startUpstream } from './upstream/upstream.ts'

/**
 * A build of ours beside the way of the former script, which did one thing after the other: each file, then for each
 * image fetch and export, then the ISO. Same upstream on loopback, realistic sizes, one run. Prints seconds and their
 * ratio. The serial side neither verifies, nor unpacks as the script did, so it is on the fast side.
 */

const run = promisify(execFile)
const cli = join(import.meta.dirname, '../dist/cli.js')
const rounds = Number(process.argv[2] ?? '3')

console.log('preparing an upstream of realistic sizes …')
const upstream = await startUpstream(REALISTIC_SIZES)
const bench = await makeBench()
try {
  await upstream.pushAll()
  const pairs: { ours: number; serial: number }[] = []
  for (let round = 0; round < rounds; round++) {
    const start = performance.now()
    // In a process of its own: this one serves the upstream.
    const args = [
      'build',
      '--kubernetes-version',
      '1.33.13',
      '--output-dir',
      bench.out,
      '--mirrors',
      upstream.mirrors,
    ]
    const { stdout, stderr } = await run('node', [cli, ...args])
    const ours = (performance.now() - start) / 1000
    const iso = stdout.trim()
    const record = parseRecord(await readFile(iso.replace(/iso$/, 'versions.txt'), 'utf8'), iso)
    const urls = record.files.map(({ source }) => source)
    const images = record.images.map(({ reference }) => reference)
    const size = (await stat(iso)).size
    console.log(stderr.match(/^.*they overlap.*$/m)?.[0])
    const serial = await serially(urls, images)
    pairs.push({ ours, serial })
    console.log(
      `round ${round + 1}: ${images.length} images, ISO of ${Math.round(size / 1e6)} MB: ours ${ours.toFixed(1)} s, serial ${serial.toFixed(1)} s`,
    )
  }
  const ratios = pairs.map(({ ours, serial }) => serial / ours).toSorted((a, b) => a - b)
  console.log(`serial / ours, median of ${rounds}: ${ratios[Math.floor(rounds / 2)]?.toFixed(2)}`)
} finally {
  await bench.close()
  await upstream.close()
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
