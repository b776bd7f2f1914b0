import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { afterEach } from 'vitest'
import type { IsoImage } from '../../src/iso/reader.ts'

const execute = promisify(execFile)

/** Runs a program of the machine and returns its standard output. */
export async function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  const { stdout } = await execute(program, args, {
    ...(cwd === undefined ? {} : { cwd }),
    timeout: 60_000,
    maxBuffer: 64 * 1024 * 1024,
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
  })
  return stdout
}

/** Makes directories that are gone after each test, or (with `afterAll`) after all tests. */
export function temporaryDirectories(
  after: (remove: () => Promise<void>) => void = afterEach,
): () => Promise<string> {
  const made: string[] = []
  after(async () => {
    for (const dir of made.splice(0)) await rm(dir, { recursive: true, force: true })
  })
  return async () => {
    const dir = await mkdtemp(join(tmpdir(), 'iso-test-'))
    made.push(dir)
    return dir
  }
}

/** Mounts an empty file system of its own while `body` runs. */
export async function withDisk(dir: string, options: string, body: () => Promise<void>): Promise<void> {
  await run('mount', ['-t', 'tmpfs', '-o', options, 'none', dir])
  try {
    await body()
  } finally {
    await run('umount', [dir])
  }
}

/** Only root may, and not in every container. */
export async function canMount(): Promise<boolean> {
  const dir = await mkdtemp(join(tmpdir(), 'iso-mount-'))
  try {
    await withDisk(dir, 'size=1m', async () => {})
    return true
  } catch {
    return false
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Writes files of the given contents below a directory. */
export async function writeFiles(
  dir: string,
  contents: Readonly<Record<string, string | Buffer>>,
): Promise<void> {
  for (const [path, content] of Object.entries(contents)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), content)
  }
}

/** The SHA-256 of every file of an image, by path, as our reader sees it. */
export async function digestsOf(iso: IsoImage): Promise<Record<string, string>> {
  const digests: Record<string, string> = {}
  for (const { path, isDirectory } of iso.entries) {
    if (isDirectory) continue
    const hash = createHash('sha256')
    for await (const piece of iso.read(path)) hash.update(piece)
    digests[path] = hash.digest('hex')
  }
  return digests
}

export async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

/** What `bsdtar` lists of an image: size (directories: 0) by path. */
export async function bsdtarListing(image: string): Promise<Record<string, number>> {
  const lines = (await run('bsdtar', ['-tvf', image])).trimEnd().split('\n')
  return Object.fromEntries(
    lines.flatMap((line) => {
      const found = /^(.)\S+\s+\d+\s+\S+\s+\S+\s+(\d+) \w+ +\d+ +[\d:]+ (.+?)(?: link to .*| -> .*)?$/.exec(
        line,
      )
      if (found === null) throw new Error(`bsdtar says: ${line}`)
      const [, type = '', size = '', path = ''] = found
      return path === '.' ? [] : [[path, type === 'd' ? 0 : Number(size)]]
    }),
  )
}

/** What `isoinfo -R -l` lists of an image: size (directories: 0; parts of large files added up) by path. */
export async function isoinfoListing(image: string): Promise<Record<string, number>> {
  const listing: Record<string, number> = {}
  let directory = ''
  for (const line of (await run('isoinfo', ['-R', '-l', '-i', image])).split('\n')) {
    const heading = /^Directory listing of \/(.*)$/.exec(line)
    if (heading !== null) directory = heading[1] ?? ''
    const found = /^(.)\S+\s+\d+\s+\d+\s+\d+\s+(\d+) \w+ +\d+ \d+ \[ *\d+ \S+ +(.+?) ?$/.exec(line)
    const [, type = '', size = '', name = '.'] = found ?? []
    if (name === '.' || name === '..') continue
    const path = `${directory}${name}`
    listing[path] = type === 'd' ? 0 : (listing[path] ?? 0) + Number(size)
  }
  return listing
}

/** What xorriso lists of an image: size (directories: 0) by path. */
export async function xorrisoListing(image: string): Promise<Record<string, number>> {
  const lines = (await run('xorriso', ['-indev', image, '-find', '/', '-exec', 'lsdl', '--'])).split('\n')
  return Object.fromEntries(
    lines.flatMap((line) => {
      const found = /^(.)\S+\s+\d+\s+\d+\s+\d+\s+(\d+) \w+ +\d+ +[\d:]+ '\/(.+)'(?: -> .*)?$/.exec(line)
      const [, type = '', size = '', path = ''] = found ?? []
      return path === '' ? [] : [[path, type === 'd' ? 0 : Number(size)]]
    }),
  )
}

/** Our reader's view in the same form. */
export function listingOf(iso: IsoImage): Record<string, number> {
  return Object.fromEntries(iso.entries.map(({ path, size }) => [path, size]))
}
