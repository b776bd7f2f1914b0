import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { publishedSha256 } from '../../src/fetch/checksum.ts'
import { formatOf, requireContent } from '../../src/fetch/content.ts'
import { Downloads } from '../../src/fetch/download.ts'
import { parseRefs } from '../../src/fetch/git.ts'
import { parseRetryAfter } from '../../src/fetch/retry.ts'
import { keptLog } from '../log.ts'

const HASH = 'a'.repeat(64)
const FILE = 'https://example.org/dl/cni-plugins.tgz'

describe('a published checksum', () => {
  it.each([
    ['a bare hash', `${HASH}\n`],
    ['a bare hash without a line end', HASH],
    ['upper case', HASH.toUpperCase()],
    ['hash and name', `${HASH}  cni-plugins.tgz\n`],
    ['a binary marker', `${HASH} *cni-plugins.tgz`],
    ['a path before the name', `${HASH}  ./bin/cni-plugins.tgz`],
    ['CRLF', `${HASH}  cni-plugins.tgz\r\n`],
    ['BSD form', `SHA256 (cni-plugins.tgz) = ${HASH}`],
    ['our line among others', `${'b'.repeat(64)}  other.tgz\n${HASH}  cni-plugins.tgz\n`],
  ])('is read from %s', (_, text) => {
    expect(publishedSha256(text, `${FILE}.sha256`, FILE)).toBe(HASH)
  })

  it.each([
    ['an error page', '<html>Not found</html>'],
    ['an empty file', ''],
    ['another file only', `${HASH}  other.tgz`],
    ['two hashes for our file', `${HASH}  cni-plugins.tgz\n${'b'.repeat(64)}  cni-plugins.tgz`],
    ['a short hash', 'abc123'],
    ['two bare hashes', `${HASH}\n${'b'.repeat(64)}`],
  ])('is refused from %s', (_, text) => {
    expect(() => publishedSha256(text, `${FILE}.sha256`, FILE)).toThrow(/cni-plugins\.tgz\.sha256 holds/)
  })
})

describe('Retry-After', () => {
  it('is seconds or a date', () => {
    const now = Date.parse('2026-01-01T00:00:00Z')
    expect(parseRetryAfter('7', now)).toBe(7000)
    expect(parseRetryAfter('Thu, 01 Jan 2026 00:00:09 GMT', now)).toBe(9000)
    expect(parseRetryAfter('soon', now)).toBeUndefined()
    expect(parseRetryAfter(undefined, now)).toBeUndefined()
  })
})

describe('git references', () => {
  it('give an annotated tag the commit that it names, and nothing for other lines', () => {
    const [a, b] = ['1'.repeat(40), '2'.repeat(40)]
    expect(parseRefs(`warning: x\n${a}\trefs/tags/v1\n${b}\trefs/tags/v1^{}\n${b}\trefs/tags/v2\n`)).toEqual([
      { name: 'refs/tags/v1', commit: b },
      { name: 'refs/tags/v2', commit: b },
    ])
  })
})

describe('file formats', () => {
  it('are told by their first bytes', () => {
    const elf = Buffer.alloc(64)
    elf.write('\x7fELF', 'latin1')
    elf.writeUInt16LE(183, 18)
    expect(formatOf(elf)).toEqual({ kind: 'elf', arch: 'arm64' })
    elf.writeUInt16LE(3, 18)
    expect(formatOf(elf)).toEqual({ kind: 'elf', arch: undefined })
    expect(formatOf(Buffer.from([0x1f, 0x8b, 8]))).toEqual({ kind: 'gzip' })
    expect(formatOf(Buffer.from('<html>'))).toEqual({ kind: 'other', start: '<html>' })
    expect(formatOf(Buffer.alloc(0))).toEqual({ kind: 'other', start: '' })
  })
})

describe('a download', () => {
  let dir: string
  let server: Server
  let base: string
  let answer: RequestListener
  let count: number
  const log = keptLog()

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'fetch-'))
    count = 0
    server = createServer((request, response) => {
      count++
      answer(request, response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    base = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  })

  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await rm(dir, { recursive: true, force: true })
  })

  const downloads = (signal = new AbortController().signal) =>
    new Downloads({
      mirrors: [{ from: 'https://up.example', to: base }],
      log,
      signal,
      pauses: [5, 10, 15],
      silence: 300,
    })
  const get = (signal?: AbortSignal, ...more: { url: string; checksumUrl?: string }[]) =>
    downloads(signal).file(
      {
        what: 'the thing',
        input: 'thing-version',
        candidates: [{ url: 'https://up.example/thing' }, ...more],
      },
      join(dir, 'thing'),
    )

  it('arrives by the mirror and is recorded by its original URL', async () => {
    answer = (_, response) =>
      response.setHeader('last-modified', 'Thu, 01 Jan 2026 00:00:09 GMT').end('hello')
    expect(await get()).toEqual({
      path: join(dir, 'thing'),
      url: 'https://up.example/thing',
      size: 5,
      sha256: createHash('sha256').update('hello').digest('hex'),
      lastModified: Date.parse('2026-01-01T00:00:09Z') / 1000,
    })
    expect(await readFile(join(dir, 'thing'), 'utf8')).toBe('hello')
  })

  it('follows redirects', async () => {
    answer = (request, response) =>
      request.url === '/thing'
        ? response.writeHead(302, { location: '/elsewhere' }).end()
        : response.end(request.url)
    await get()
    expect(await readFile(join(dir, 'thing'), 'utf8')).toBe('/elsewhere')
  })

  it('ends a circle of redirects', async () => {
    answer = (_, response) => response.writeHead(302, { location: '/thing' }).end()
    await expect(get()).rejects.toThrow(/redirected more than 10 times/)
    expect(count).toBe(11)
  })

  it('fails at once on a 404, with the URL and the input', async () => {
    answer = (_, response) => response.writeHead(404).end('404: Not Found')
    await expect(get()).rejects.toThrow(
      /the thing: https:\/\/up\.example\/thing .*answered 404 Not Found\nCheck the input thing-version/,
    )
    expect(count).toBe(1)
    expect(await readdir(dir)).toEqual([])
  })

  it.each([500, 502, 503, 429, 408])('tries again after a %i', async (status) => {
    answer = (_, response) => (count < 4 ? response.writeHead(status).end('busy') : response.end('ok'))
    await get()
    expect(count).toBe(4)
  })

  it('gives up after three retries and tells the last reason', async () => {
    answer = (_, response) => response.writeHead(503).end()
    await expect(get()).rejects.toThrow(/answered 503 .*\nRun again/)
    expect(count).toBe(4)
  })

  it('waits as long as Retry-After says', async () => {
    answer = (_, response) =>
      count === 1 ? response.writeHead(429, { 'retry-after': '1' }).end() : response.end('ok')
    const start = performance.now()
    await get()
    expect(performance.now() - start).toBeGreaterThan(950)
  })

  it('does not wait for a Retry-After of an hour', async () => {
    answer = (_, response) => response.writeHead(429, { 'retry-after': '3600' }).end()
    await expect(get()).rejects.toThrow('429')
    expect(count).toBe(1)
  })

  it('tries again when the body ends early, and never keeps half of it', async () => {
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('x'.repeat(600))
      if (count < 3) setTimeout(() => response.destroy(), 10)
      else response.end('x'.repeat(400))
    }
    expect((await get()).size).toBe(1000)
    expect(await readdir(dir)).toEqual(['thing'])
  })

  it('ends when the server falls silent', async () => {
    answer = () => {}
    await expect(get()).rejects.toThrow(/timeout/i)
    expect(count).toBe(4)
  })

  it('must match its published checksum', async () => {
    answer = (request, response) => response.end(request.url === '/thing' ? 'hello' : HASH)
    const request = {
      what: 'the thing',
      input: 'thing-version',
      candidates: [{ url: 'https://up.example/thing', checksumUrl: 'https://up.example/thing.sha256' }],
    } as const
    await expect(downloads().file(request, join(dir, 'thing'))).rejects.toThrow(
      /https:\/\/up\.example\/thing has SHA-256 2cf24d.*, but https:\/\/up\.example\/thing\.sha256 says aaaa/,
    )
    expect(await readdir(dir)).toEqual([])
  })

  it('is not taken without the checksum that belongs to it', async () => {
    answer = (request, response) =>
      request.url === '/thing' ? response.end('hello') : response.writeHead(404).end('404: Not Found')
    const candidates = [{ url: 'https://up.example/thing', checksumUrl: 'https://up.example/sum' }] as const
    await expect(
      downloads().file({ what: 'the thing', input: 'thing-version', candidates }, join(dir, 'thing')),
    ).rejects.toThrow(/published checksum of the thing: https:\/\/up\.example\/sum.*404/)
    expect(await readdir(dir)).toEqual([])
  })

  it('comes from the next candidate after a 404 and only then', async () => {
    answer = (request, response) =>
      request.url === '/old' ? response.end('old') : response.writeHead(404).end()
    expect((await get(undefined, { url: 'https://up.example/old' })).url).toBe('https://up.example/old')
    answer = (request, response) =>
      request.url === '/old' ? response.end('old') : response.writeHead(403).end()
    await rm(join(dir, 'thing'))
    await expect(get(undefined, { url: 'https://up.example/old' })).rejects.toThrow('403')
  })

  it('stops on cancel and leaves nothing', async () => {
    const cancel = new AbortController()
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('x')
      setTimeout(() => cancel.abort(), 20)
    }
    await expect(get(cancel.signal)).rejects.toThrow(/cancelled/)
    expect(await readdir(dir)).toEqual([])
  })

  it('must be of the format that it stands for', async () => {
    const path = join(dir, 'kubeadm')
    await writeFile(path, '<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>')
    await expect(
      requireContent(
        { path, url: 'https://up.example/kubeadm' },
        { kind: 'elf', arch: 'amd64' },
        'kubernetes-version',
      ),
    ).rejects.toThrow(/kubeadm is no amd64 Linux program but a file that starts with "<\?xml/)
  })

  it('of an archive must be whole, whatever its checksum says', async () => {
    const path = join(dir, 'cni.tgz')
    const archive = gzipSync('x'.repeat(100_000) + Math.random())
    const check = () =>
      requireContent({ path, url: 'https://up.example/cni.tgz' }, { kind: 'gzip' }, 'cni-version')
    await writeFile(path, archive)
    await check()
    await writeFile(path, archive.subarray(0, archive.length / 2))
    await expect(check()).rejects.toThrow(/cni\.tgz is a damaged gzip archive/)
  })

  it('is not led off the web by a redirect', async () => {
    answer = (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end()
    await expect(get()).rejects.toThrow(/redirected to file:\/\/\/etc\/passwd, which is not on the web/)
  })

  it('has no time when the server gives one that no ISO can carry', async () => {
    answer = (_, response) => response.setHeader('last-modified', 'Thu, 01 Jan 1970 00:00:00 GMT').end('x')
    expect(await get()).not.toHaveProperty('lastModified')
  })

  it('that is too long is no version file', async () => {
    answer = (_, response) => response.end('x'.repeat(2_000_000))
    await expect(
      downloads().text(
        { what: 'the version', input: 'v', candidates: [{ url: 'https://up.example/v' }] },
        join(dir, 'v'),
      ),
    ).rejects.toThrow(/2000000 bytes where a short text is expected/)
    expect(await readdir(dir)).toEqual([])
  })
})
