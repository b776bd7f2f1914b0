import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { link, mkdir, open, readFile, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { type IsoImage, openIso } from '../../src/iso/reader.ts'
import {
  bsdtarListing,
  digestsOf,
  isoinfoListing,
  listingOf,
  run,
  sha256,
  temporaryDirectories,
  writeFiles,
  xorrisoListing,
} from './iso-rig.ts'

const temporary = temporaryDirectories()
/** For what several tests read and none changes. */
const lasting = temporaryDirectories(afterAll)

const LONG = `${'operator-generic@sha256_'}${'0123456789abcdef'.repeat(4)}.tar`

/** A tree with whatever is hard to read. */
async function awkwardTree(): Promise<string> {
  const dir = join(await lasting(), 'tree')
  const deep = 'one/two/three/four/five/six'
  await writeFiles(dir, {
    'k8s/kubeadm': 'binary',
    'docker/pause:3.10.1.tar': 'image',
    'docker/kube-proxy:v1.33.13.tar': Buffer.alloc(3_000_001, 'proxy'),
    [`docker/${LONG}`]: 'long',
    [`${'d'.repeat(100)}/${'n'.repeat(103)}`]: 'longer',
    [`${deep}/seven.txt`]: 'deep',
    'empty.yaml': '',
    'also-empty.yaml': '',
    'two words é.yaml': 'accent',
    'etcd/etcd-linux-arm64.tar.gz': 'archive',
    // More than fits into one sector of a directory.
    ...Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`many/file-number-${index}.yaml`, `${index}`]),
    ),
  })
  await link(join(dir, 'etcd/etcd-linux-arm64.tar.gz'), join(dir, 'etcd/etcd-linux-amd64.tar.gz'))
  await mkdir(join(dir, 'empty-directory'))
  return dir
}

const XORRISO = ['xorriso', '-no_rc', '-as', 'mkisofs', '-quiet']
const GENISOIMAGE = ['genisoimage', '-quiet', '-input-charset', 'utf-8']

async function make(command: readonly string[], options: readonly string[], tree: string): Promise<string> {
  const image = join(await lasting(), 'made.iso')
  const [program = '', ...args] = command
  await run(program, [...args, '-V', 'CDROM', ...options, '-o', image, '.'], tree)
  return image
}

async function using<T>(image: string, body: (iso: IsoImage) => T | Promise<T>): Promise<T> {
  const iso = await openIso(image)
  try {
    return await body(iso)
  } finally {
    await iso.close()
  }
}

const ROCK_RIDGE = ['-iso-level', '3', '-R', '-J', '-joliet-long', '-l']

describe.each([
  ['xorriso', XORRISO],
  ['genisoimage', GENISOIMAGE],
])('an ISO that %s wrote', (_, command) => {
  let tree = ''
  let image = ''
  beforeAll(async () => {
    tree = await awkwardTree()
    image = await make(command, ROCK_RIDGE, tree)
  })

  it('is listed as isoinfo, bsdtar and xorriso list it', async () => {
    const listing = await using(image, listingOf)
    expect(Object.keys(listing)).toContain(`docker/${LONG}`)
    expect(Object.keys(listing).length).toBeGreaterThan(120)
    expect(listing).toEqual(await isoinfoListing(image))
    expect(listing).toEqual(await xorrisoListing(image))
    // bsdtar takes names that are hard links to be what they link to.
    const { 'etcd/etcd-linux-amd64.tar.gz': __, 'etcd/etcd-linux-arm64.tar.gz': ___, ...others } = listing
    expect(await bsdtarListing(image)).toMatchObject(others)
  })

  it('is read as its files were, and as bsdtar unpacks it', async () => {
    const unpacked = await temporary()
    await run('bsdtar', ['-xf', image], unpacked)
    await using(image, async (iso) => {
      expect([iso.volumeId, iso.rockRidge, iso.joliet]).toEqual(['CDROM', true, true])
      const digests = await digestsOf(iso)
      expect(digests['docker/kube-proxy:v1.33.13.tar']).toBe(
        createHash('sha256').update(Buffer.alloc(3_000_001, 'proxy')).digest('hex'),
      )
      for (const [path, digest] of Object.entries(digests)) {
        expect([path, digest]).toEqual([path, await sha256(join(tree, path))])
        expect([path, digest]).toEqual([path, await sha256(join(unpacked, path))])
      }
    })
  })

  it('shows mode and Joliet name of each entry', async () => {
    const entries = await using(image, (iso) => iso.entries)
    const pause = entries.find(({ path }) => path === 'docker/pause:3.10.1.tar')
    expect(pause).toEqual({
      path: 'docker/pause:3.10.1.tar',
      size: 5,
      isDirectory: false,
      mode: 0o100644,
      jolietPath: 'docker/pause_3.10.1.tar',
    })
    const joliet = (await run('isoinfo', ['-J', '-j', 'iso8859-1', '-f', '-i', image])).trim().split('\n')
    // isoinfo knows no UTF-8: its é is no character here.
    const names = entries.map(({ jolietPath }) => `/${jolietPath}`.replace('é', '\ufffd'))
    expect(names.toSorted()).toEqual(joliet.toSorted())
  })

  it('is read in part, over pieces and ends', async () => {
    const whole = Buffer.alloc(3_000_001, 'proxy')
    await using(image, async (iso) => {
      for (const [offset, length] of [
        [0, 0],
        [0, 10],
        [1_048_570, 20],
        [2_999_000, 5_000],
        [4_000_000, 1],
      ] as const) {
        const pieces: Buffer[] = []
        for await (const piece of iso.read('docker/kube-proxy:v1.33.13.tar', { offset, length })) {
          pieces.push(piece)
        }
        expect(Buffer.concat(pieces).equals(whole.subarray(offset, offset + length))).toBe(true)
      }
    })
  })

  it('has plain names without Rock Ridge, with and without Joliet', async () => {
    const plainTree = join(await temporary(), 'tree')
    await writeFiles(plainTree, { 'docker/pause:3.10.1.tar': 'image', README: 'text', 'a.b': '' })
    const plain = command === XORRISO ? ['--norock'] : []
    for (const options of [plain, [...plain, '-J']]) {
      const made = await make(command, options, plainTree)
      await using(made, async (iso) => {
        expect([iso.rockRidge, iso.joliet]).toEqual([false, options.includes('-J')])
        const expected = (await run('isoinfo', ['-f', '-i', made])).trim().split('\n')
        const names = expected.map((name) => name.slice(1).replace(/\.?;1$/, ''))
        expect(iso.entries.map(({ path }) => path).toSorted()).toEqual(names.toSorted())
        expect(iso.entries.every(({ mode }) => mode === undefined)).toBe(true)
        const file = iso.entries.find(({ path }) => path.startsWith('DOCKER/PAUSE'))
        expect(file?.size).toBe(5)
        const readme = iso.entries.find(({ path }) => path === 'README')
        expect(readme?.jolietPath).toBe(iso.joliet ? 'README' : undefined)
      })
    }
  })

  it('is listed where its symbolic links stand, without following them', async () => {
    const plainTree = join(await temporary(), 'tree')
    await writeFiles(plainTree, { file: 'text' })
    await symlink('file', join(plainTree, 'link'))
    const made = await make(command, ROCK_RIDGE, plainTree)
    await using(made, (iso) => {
      const found = iso.entries.find(({ path }) => path === 'link')
      expect(found).toMatchObject({ size: 0, isDirectory: false })
      expect((found?.mode ?? 0) & 0o170000).toBe(0o120000)
    })
  })
})

it.each([
  ['genisoimage', GENISOIMAGE, []],
  ['xorriso', XORRISO, ['-rr_reloc_dir', '/rr_moved']],
])(
  'directories that %s moved because they lie too deep are shown where they belong',
  async (_, command, more) => {
    const tree = join(await temporary(), 'tree')
    await writeFiles(tree, { '1/2/3/4/5/6/7/8/9/10/file': 'deep', '1/2/3/4/5/6/7/8/other': 'x' })
    const image = await make(command, ['-R', ...more], tree)
    expect(await run('isoinfo', ['-R', '-f', '-i', image])).toContain('/rr_moved/8')
    await using(image, async (iso) => {
      const listing = listingOf(iso)
      delete listing.rr_moved
      expect(listing).toEqual(await bsdtarListing(image))
      expect(Object.keys(await digestsOf(iso))).toEqual([
        '1/2/3/4/5/6/7/8/other',
        '1/2/3/4/5/6/7/8/9/10/file',
      ])
    })
  },
)

/**
 * The directory part (34 sectors, gzip) of what `xorrisofs -V CDROM -iso-level 3 -R -J` (1.5.4) wrote of one file `big`
 * of 4 GiB + 1000 bytes: writing such an ISO anew would take longer than all other tests.
 */
const LARGE_FILE_HEAD =
  'H4sIAAAAAAACA+3aTU8TQRjA8VkO2oDxAooaD4PBhAOsu0CJxNN2O4WJ3ZfMbkk9abgQLnwEI4mJX4QP4cnPw6Xxyg1nuy3lRdig' +
  'YJD+f6U7uzPPzGy7TZ7OFiEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIATNj3Pd4SsEDZN' +
  'El3RPhzvu7C70hZV89q/4ilqNTFZVk0+GTU/LTavxHR5NC1qRVETnx9N1OYdMTHsL8dcNzFGZ8mS79bdVbnsLfuu57srnuvXPXtZ' +
  'F2VbN2x7o2PiMmZY08pOHY+aJa5i3+A13268tytrnu954kKFd87FCj60446kgztjYpD/bc6++hGKpjAiEdEl7efy/+s36tr5/9mo' +
  '+XmZ/2fLo9nL8n/lWd/3R9deEWMfWmR2b0n4whV1+1y1bcvCJqh+jdffrtjStXt1W3r9ukUb1bZ9G4P+DdGxY8Vnxjkf07LbUfv/' +
  '8B7dXNDN5H8AuBOOh/kfAACMja+V99iz9KHz46dIu/NOLyhCgp5zsoY/K2+9cB4P+p8tQvXSmSmDZobRvWHxqeocnL+bfE/MlSFz' +
  '4ujYOho2fCnHf9DQG+47v/8SD/aLwP2D688SRzVHbO/u7J2sJw+nih5Th4MAcRuz8QkGAPwJZXrOZP7NMUanH/31dT/IN5U0Sfhe' +
  'Gt3cUFLHuTLhZhDb/dQkeRIm7WJnSzdVJrNOmiYml63EyDTJdFe2dFvJ7EOWq0hmKgriXIdZ2lZBpmSYxHkQ5rKps1CmnUZbZ5vK' +
  '9DtnqQp1S4dBrpNYZknHhMqVdgR1KtBOaYdr6WI3tieho8B8kFtJuxMpaU8ntC8iT8oBh3Pp2B5F/WFdLjcAAIMl5/TvFp4AAOBe' +
  '539R3HfnCwAAAGOk+n/sKyOcharf18W22BU7YqHql/FBHAAAuO31/6zg/j8AAOOW//sre74AAAAAAAAAAAAAAAAAAAAAAAAAAAAA' +
  'AAAAAADwD/0C0kdL2wAQAQA='

describe('a file of more than 4 GiB', () => {
  const SIZE = 4_294_968_296
  const SPLIT = 4_294_965_248

  /** The image with marks at the start of the file, over the end of its first part, and at its end. */
  async function largeImage(): Promise<string> {
    const image = join(await temporary(), 'large.iso')
    await writeFile(image, gunzipSync(Buffer.from(LARGE_FILE_HEAD, 'base64')))
    await truncate(image, 4_295_344_128)
    // The parts as `isoinfo -l` places them: sector 33, and sector 2097184, which follows it.
    const handle = await open(image, 'r+')
    try {
      await handle.write('start', 33 * 2048)
      await handle.write('left', 33 * 2048 + SPLIT - 4)
      await handle.write('right', 2_097_184 * 2048)
      await handle.write('end', 2_097_184 * 2048 + SIZE - SPLIT - 3)
    } finally {
      await handle.close()
    }
    return image
  }

  it('has its whole size, as other readers see it', async () => {
    const image = await largeImage()
    await using(image, async (iso) => {
      expect(iso.entries).toMatchObject([{ path: 'big', size: SIZE, jolietPath: 'big' }])
      expect(listingOf(iso)).toEqual(await isoinfoListing(image))
      expect(listingOf(iso)).toEqual(await bsdtarListing(image))
      expect(listingOf(iso)).toEqual(await xorrisoListing(image))
    })
  })

  it('is read over the border of its parts', async () => {
    const image = await largeImage()
    await using(image, async (iso) => {
      const text = async (offset: number, length: number): Promise<string> => {
        let found = ''
        for await (const piece of iso.read('big', { offset, length })) found += piece.toString('latin1')
        return found
      }
      expect(await text(0, 5)).toBe('start')
      expect(await text(SPLIT - 4, 9)).toBe('leftright')
      expect(await text(SPLIT, 5)).toBe('right')
      expect(await text(SIZE - 3, 100)).toBe('end')
    })
  })

  it('is refused when its second part is missing', async () => {
    const image = await largeImage()
    await truncate(image, 4_295_344_127)
    await expect(openIso(image)).rejects.toThrow('it is cut off: it should have 4295344128 bytes')
  })
})

describe('what is no whole ISO', () => {
  /** A small image that is whole, and its bytes. */
  let image = ''
  let bytes = Buffer.alloc(0)
  beforeAll(async () => {
    const tree = join(await lasting(), 'tree')
    await writeFiles(tree, { [`docker/${'x'.repeat(90)}:1.tar`]: 'image', 'etcd/sub/file': 'text', a: 'b' })
    image = await make(XORRISO, ROCK_RIDGE, tree)
    bytes = await readFile(image)
  })

  async function refused(content: Buffer | string): Promise<string> {
    const broken = join(await temporary(), 'broken.iso')
    await writeFile(broken, content)
    const failure = await openIso(broken).then(
      async (iso) => await iso.close(),
      (thrown: unknown) => thrown,
    )
    expect(failure).toBeInstanceOf(Failure)
    const { message } = failure as Failure
    expect(message).toContain(`${broken} is no whole ISO 9660 image: `)
    return message
  }

  it('is refused with the reason', async () => {
    expect(await refused('')).toContain('it is empty')
    expect(await refused('<html>not found</html>')).toContain('it is cut off')
    expect(await refused(Buffer.alloc(100_000))).toContain('no volume descriptor')
    expect(await refused(Buffer.alloc(100_000, 'noise'))).toContain('no volume descriptor')
    expect(await refused(bytes.subarray(0, 40_000))).toContain('it is cut off')
    expect(await refused(bytes.subarray(0, bytes.length - 1))).toContain(`it should have ${bytes.length}`)
  })

  /** Where a record with the given identifier begins in the primary tree, which stands before the Joliet one. */
  function recordOf(bytes: Buffer, identifier: string): number {
    const at = bytes.indexOf(identifier, 16 * 2048, 'latin1')
    expect(at).toBeGreaterThan(0)
    return at - 33
  }

  it('is refused when it ends without its last file, though its header was changed to fit', async () => {
    const short = Buffer.from(bytes.subarray(0, 33 * 2048))
    short.writeUInt32LE(33, 16 * 2048 + 80)
    expect(await refused(short)).toMatch(/it is cut off within/)
  })

  it('is refused when a directory contains itself or its parent', async () => {
    const root = bytes.readUInt32LE(16 * 2048 + 156 + 2)
    for (const name of ['ETCD', 'SUB']) {
      const cyclic = Buffer.from(bytes)
      // The path tables name the directories, too; their records come later.
      const tree = cyclic.subarray(root * 2048)
      tree.writeUInt32LE(root, recordOf(Buffer.concat([Buffer.alloc(16 * 2048), tree]), name) - 16 * 2048 + 2)
      expect(await refused(cyclic)).toContain('contains itself')
    }
  })

  it('is refused when its volume descriptors never end', async () => {
    const endless = Buffer.concat([
      bytes.subarray(0, 17 * 2048),
      ...Array.from({ length: 70 }, () => bytes.subarray(16 * 2048, 17 * 2048)),
    ])
    expect(await refused(endless)).toContain('no end')
  })

  it('is refused when it has other descriptors but no primary one', async () => {
    const changed = Buffer.from(bytes)
    changed.writeUInt8(0, 16 * 2048)
    expect(await refused(changed)).toContain('no primary volume descriptor')
  })

  it('is refused when a Rock Ridge entry goes on in itself', async () => {
    const changed = Buffer.from(bytes)
    const at = changed.indexOf(Buffer.from([0x43, 0x45, 28, 1]), 16 * 2048)
    expect(at).toBeGreaterThan(0)
    // The continuation area of the root's own record starts with another CE that points at itself.
    const offset = changed.readUInt32LE(at + 4) * 2048 + changed.readUInt32LE(at + 12)
    changed.writeUInt32LE(28, at + 20)
    changed.copy(changed, offset, at, at + 28)
    expect(await refused(changed)).toContain('goes on without end')
  })

  it('is refused when a name would lead out of it', async () => {
    const changed = Buffer.from(bytes)
    const at = changed.indexOf(Buffer.from('NM\x09\x01\x00file', 'latin1'))
    expect(at).toBeGreaterThan(0)
    changed.write('/../', at + 5)
    expect(await refused(changed)).toContain('"/../" is no name of a file')
  })

  it('never crashes or hangs the reader, whatever its bytes', async () => {
    const noise = join(await temporary(), 'noise.iso')
    await writeFile(noise, bytes)
    const handle = await open(noise, 'r+')
    // A fixed sequence (numerical recipes' generator), so that a failure can be seen again.
    let state = 1
    const random = (below: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    let refusals = 0
    try {
      for (let round = 0; round < 400; round++) {
        const changed = Buffer.from(bytes)
        // Within descriptors, path tables and directories.
        for (let change = 0; change <= random(4); change++) {
          changed.writeUInt8(random(256), 16 * 2048 + random(30 * 2048))
        }
        const at = 16 * 2048 + random(20) * 2048
        if (random(3) === 0) changed.writeUInt8(random(256), at + random(256))
        await handle.write(changed, 0, changed.length, 0)
        try {
          await using(noise, digestsOf)
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(Failure)
          refusals++
        }
      }
    } finally {
      await handle.close()
    }
    expect(refusals).toBeGreaterThan(10)
  })

  it('is refused by name when it is missing, a directory or a socket', async () => {
    const dir = await temporary()
    await expect(openIso(join(dir, 'missing.iso'))).rejects.toThrow(
      `Cannot open the ISO: ${dir}/missing.iso: ENOENT`,
    )
    await expect(openIso(dir)).rejects.toThrow(Failure)
    const server = createServer().listen(join(dir, 'socket'))
    await once(server, 'listening')
    await expect(openIso(join(dir, 'socket'))).rejects.toThrow(Failure)
    server.close()
  })

  it('shows when it is cut off while it is read', async () => {
    const shrinking = join(await temporary(), 'shrinking.iso')
    await writeFile(shrinking, bytes)
    await using(shrinking, async (iso) => {
      await truncate(shrinking, 20 * 2048)
      await expect(digestsOf(iso)).rejects.toThrow('it became shorter while it was read')
    })
  })

  it('has only the files that it lists', async () => {
    await using(image, async (iso) => {
      await expect(iso.read('b').next()).rejects.toThrow(`${image} has no file b`)
      await expect(iso.read('docker').next()).rejects.toThrow(`${image} has no file docker`)
    })
  })
})
