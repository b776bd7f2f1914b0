import {
  chmod,
  chown,
  link,
  mkdir,
  readdir,
  readFile,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { Cancelled, Failure } from '../../src/errors.ts'
import { Programs } from '../../src/exec.ts'
import { type IsoWriter, identifyWriter } from '../../src/iso/kinds.ts'
import { openIso } from '../../src/iso/reader.ts'
import { buildTree } from '../../src/iso/tree.ts'
import { findIsoWriter, type IsoRequest, writeIso } from '../../src/iso/writer.ts'
import { keptLog } from '../log.ts'
import {
  canMount,
  digestsOf,
  run,
  temporaryDirectories,
  withDisk,
  writeFiles,
  xorrisoListing,
} from './iso-rig.ts'

const temporary = temporaryDirectories()
const programs = new Programs(new AbortController().signal)
const log = keptLog()
const isRoot = process.getuid?.() === 0
const mountable = await canMount()

const xorriso = await findIsoWriter(programs, log)
const genisoimage = identified('genisoimage', await run('genisoimage', ['--version']))

function identified(program: string, versionOutput: string): IsoWriter {
  const writer = identifyWriter(program, versionOutput)
  if (writer === undefined) throw new Error(`${program} is no ISO writer`)
  return writer
}

const WRITERS: readonly (readonly [string, IsoWriter])[] = [
  ['xorriso', xorriso],
  ['genisoimage', genisoimage],
]

const EPOCH = 1_700_000_000

const CONTENTS: Readonly<Record<string, string | Buffer>> = {
  'k8s/kubeadm': 'binary',
  'docker/pause:3.10.1.tar': 'pause',
  'docker/kube-proxy:v1.33.13.tar': Buffer.alloc(200_000, 'proxy'),
  [`docker/${'n'.repeat(99)}.tar`]: 'long name',
  'network é.yaml': 'network',
  'empty.yaml': '',
  'etcd/etcd-linux-arm64.tar.gz': 'archive',
}

/** Sources, and the tree of an ISO made of them. */
async function madeTree(contents = CONTENTS, order = Object.keys(contents)): Promise<string> {
  const dir = await temporary()
  await writeFiles(
    join(dir, 'sources'),
    Object.fromEntries(order.map((path) => [path, contents[path] ?? ''])),
  )
  const tree = join(dir, 'tree')
  await buildTree(
    tree,
    order.map((path) => ({ path, source: join(dir, 'sources', path) })),
  )
  return tree
}

async function write(tree: string, output: string, more: Partial<IsoRequest> = {}): Promise<void> {
  await writeIso({ writer: xorriso, tree, output, epoch: EPOCH, programs, log, ...more })
}

describe.each(WRITERS)('an ISO of %s', (_, writer) => {
  it('holds the tree, with the volume id that nodes look for, modes as laid out and owners 0', async () => {
    const tree = await madeTree()
    if (isRoot) await chown(join(tree, 'empty.yaml'), 65_534, 65_534)
    const output = join(await temporary(), 'made/on/the/way/x.iso')
    await write(tree, output, { writer })
    const iso = await openIso(output)
    try {
      expect([iso.volumeId, iso.rockRidge, iso.joliet]).toEqual(['CDROM', true, true])
      const files = iso.entries.filter(({ isDirectory }) => !isDirectory)
      expect(files.map(({ path }) => path).toSorted()).toEqual(Object.keys(CONTENTS).toSorted())
      for (const { path, mode } of files) {
        expect([path, mode]).toEqual([path, path.startsWith('k8s/') ? 0o100755 : 0o100644])
      }
      const pause = files.find(({ path }) => path === 'docker/pause:3.10.1.tar')
      expect(pause?.jolietPath).toBe('docker/pause_3.10.1.tar')
    } finally {
      await iso.close()
    }
    const owners = await run('xorriso', ['-indev', output, '-find', '/', '-exec', 'lsdl', '--'])
    for (const line of owners.trim().split('\n')) expect(line).toMatch(/^\S+ +\d+ 0 +0 +/)
    expect(await readdir(join(output, '..'))).toEqual(['x.iso'])
  })

  it('holds a file under two names once', async () => {
    const size = 5_000_000
    const tree = await madeTree({ 'etcd/etcd-linux-arm64.tar.gz': Buffer.alloc(size, 'etcd') })
    await link(join(tree, 'etcd/etcd-linux-arm64.tar.gz'), join(tree, 'etcd/etcd-linux-amd64.tar.gz'))
    const output = join(await temporary(), 'x.iso')
    await write(tree, output, { writer })
    expect((await stat(output)).size).toBeLessThan(1.2 * size)
    const listing = await xorrisoListing(output)
    expect(listing['etcd/etcd-linux-amd64.tar.gz']).toBe(size)
    expect(listing['etcd/etcd-linux-arm64.tar.gz']).toBe(size)
  })

  it.skipIf(!mountable)('is not made on a full disk, and nothing of it stays there', async () => {
    const disk = await temporary()
    const tree = await madeTree({ big: Buffer.alloc(3_000_000) })
    await withDisk(disk, 'size=1m', async () => {
      const written = write(tree, join(disk, 'x.iso'), { writer })
      await expect(written).rejects.toThrow(Failure)
      await expect(written).rejects.toThrow(`Cannot write the ISO ${disk}/x.iso: the disk is full`)
      await expect(written).rejects.toThrow('output-dir')
      expect(await readdir(disk)).toEqual([])
    })
  })
})

it('xorriso and genisoimage put the same files on an ISO', async () => {
  const tree = await madeTree()
  const dir = await temporary()
  const seen: unknown[] = []
  for (const [name, writer] of WRITERS) {
    const output = join(dir, `${name}.iso`)
    await write(tree, output, { writer })
    const iso = await openIso(output)
    const entries = iso.entries.map(({ path, size, mode, jolietPath }) => ({ path, size, mode, jolietPath }))
    seen.push({ entries: entries.toSorted((a, b) => (a.path < b.path ? -1 : 1)), ...(await digestsOf(iso)) })
    await iso.close()
  }
  expect(seen[0]).toEqual(seen[1])
})

describe('two ISOs of equal trees by xorriso', () => {
  const environment = { ...process.env }
  afterEach(() => {
    for (const name of ['TZ', 'SOURCE_DATE_EPOCH', 'HOME']) {
      const before = environment[name]
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    }
  })

  it('are byte-identical, wherever, whenever and in whatever environment they are made', async () => {
    const first = join(await temporary(), 'first.iso')
    await write(await madeTree(), first)

    // A second at least, since that is what dates on an ISO can tell apart.
    await sleep(1_100)
    const home = await temporary()
    await writeFiles(home, {
      '.xorrisorc': '-volid FOREIGN\n',
      '.mkisofsrc': 'VOLI=FOREIGN\nPUBL=SOMEBODY\n',
    })
    Object.assign(process.env, { TZ: 'Asia/Tokyo', SOURCE_DATE_EPOCH: 'abc', HOME: home })
    const tree = await madeTree(CONTENTS, Object.keys(CONTENTS).toReversed())
    await utimes(join(tree, 'docker'), 1, 1)
    await utimes(join(tree, 'empty.yaml'), 1, 1)
    const second = join(await temporary(), 'another-name.iso')
    await write(tree, second)

    await run('cmp', [first, second])
    expect(await run('isoinfo', ['-R', '-l', '-i', second])).toContain('Nov 14 2023')
  })

  it('differ when the time that they carry differs', async () => {
    const dir = await temporary()
    const tree = await madeTree()
    await write(tree, join(dir, 'a'))
    await write(tree, join(dir, 'b'), { epoch: EPOCH + 1 })
    await expect(run('cmp', [join(dir, 'a'), join(dir, 'b')])).rejects.toThrow()
  })
})

describe('an ISO that cannot be made', () => {
  it('for a file of 4 GiB is refused with genisoimage, naming the file and xorriso', async () => {
    const tree = await madeTree({ 'docker/small.tar': 'x', 'docker/large.tar': '' })
    const output = join(await temporary(), 'x.iso')
    await truncate(join(tree, 'docker/large.tar'), 2 ** 32 - 1)
    await expect(write(tree, output, { writer: genisoimage })).rejects.toThrow(
      'genisoimage 1.1.11 cannot write files of 4 GiB or more: docker/large.tar (4294967295 bytes)\nInstall the package xorriso',
    )
  })

  it('for its directory is refused with the reason', async () => {
    const tree = await madeTree()
    const dir = await temporary()
    await writeFile(join(dir, 'file'), '')
    const written = write(tree, join(dir, 'file/x.iso'))
    await expect(written).rejects.toThrow(Failure)
    await expect(written).rejects.toThrow(`Cannot write the ISO: ${dir}/file/x.iso: EEXIST`)
  })

  it.skipIf(!mountable)('for a read-only disk is refused with what to do', async () => {
    const disk = await temporary()
    const tree = await madeTree()
    await withDisk(disk, 'ro', async () => {
      await expect(write(tree, join(disk, 'x.iso'))).rejects.toThrow(/EROFS.*\nMake .*output-dir/)
    })
  })

  it('for a directory of its name is refused, and nothing stays beside that', async () => {
    const dir = await temporary()
    await mkdir(join(dir, 'x.iso/in-use'), { recursive: true })
    const written = write(await madeTree(), join(dir, 'x.iso'))
    await expect(written).rejects.toThrow(`Cannot give the ISO its name: ${dir}/x.iso`)
    expect(await readdir(dir)).toEqual(['x.iso'])
  })

  it.each([0, -1, 1.5, Number.NaN, 4_102_444_800])('for the time %s is refused', async (epoch) => {
    const output = join(await temporary(), 'x.iso')
    await expect(write('nowhere', output, { epoch })).rejects.toThrow(
      /is no time for its files\nGive SOURCE_DATE_EPOCH/,
    )
  })

  it('because it was cancelled leaves nothing, and ends the writer', async () => {
    const tree = await madeTree({ large: '' })
    await truncate(join(tree, 'large'), 3_000_000_000)
    const dir = await temporary()
    const cancel = new AbortController()
    const cancelled = new Programs(cancel.signal)
    const written = write(tree, join(dir, 'x.iso'), { programs: cancelled })
    const outcome = written.catch((thrown: unknown) => thrown)
    const partialSize = async (): Promise<number> => {
      const [partial] = await readdir(dir)
      return partial === undefined ? 0 : (await stat(join(dir, partial))).size
    }
    while ((await partialSize()) < 1_000_000) await sleep(5)
    cancel.abort()
    expect(await outcome).toBeInstanceOf(Cancelled)
    expect(await readdir(dir)).toEqual([])
  })
})

describe('what a writer left', () => {
  /** A program of the machine that writes ISOs in a way of its own. */
  async function foreignWriter(script: string): Promise<IsoWriter> {
    const program = join(await temporary(), 'writer')
    await writeFile(program, `#!/bin/sh\n${script}\n`)
    await chmod(program, 0o755)
    return { ...xorriso, program }
  }

  it.each([
    ['a file is missing', 'rm docker/pause*; exec xorrisofs "$@"', 'docker/pause:3.10.1.tar is missing'],
    [
      'a name was changed',
      'mv empty.yaml renamed.yaml; exec xorrisofs "$@"',
      'empty.yaml is missing; renamed.yaml was not asked for',
    ],
    [
      'the volume id is another',
      'exec xorrisofs "$@" -V ISOIMAGE',
      'volume id is "ISOIMAGE" instead of CDROM',
    ],
    ['it has no Rock Ridge', 'exec xorrisofs "$@" --norock', 'it has no Rock Ridge names'],
    ['nothing was written', 'exit 0', 'it is empty'],
    ['it failed', 'echo "cannot read it" >&2; exit 5', 'exited with 5: cannot read it'],
    [
      'it is cut off',
      'xorrisofs "$@"; while [ "$1" != -o ]; do shift; done; truncate -s -2048 "$2"',
      'it is cut off: it should have',
    ],
  ])('is refused when %s', async (_, script, reason) => {
    const writer = await foreignWriter(script)
    const dir = await temporary()
    await writeFile(join(dir, 'x.iso'), 'the ISO of an earlier build')
    const written = write(await madeTree(), join(dir, 'x.iso'), { writer })
    await expect(written).rejects.toThrow(Failure)
    await expect(written).rejects.toThrow(reason)
    expect(await readdir(dir)).toEqual(['x.iso'])
    expect(await readFile(join(dir, 'x.iso'), 'utf8')).toBe('the ISO of an earlier build')
  })
})
