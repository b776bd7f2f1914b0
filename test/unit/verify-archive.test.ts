import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import type { Arch } from '../../src/arch.ts'
import { type Archive, inspectArchive } from '../../src/verify/archive.ts'
import { buildImage } from '../upstream/images.ts'
import { archiveOf, blobName, layoutIndex, type Members, tarOf } from '../verify-rig.ts'

const NAME = 'docker.io/library/app:1.0'

async function inspect(content: Buffer, arch: Arch = 'amd64', piece = 1000): Promise<Archive> {
  async function* pieces(): AsyncGenerator<Buffer, void> {
    for (let at = 0; at < content.length; at += piece) yield content.subarray(at, at + piece)
  }
  return await inspectArchive({ path: 'docker/app:1.0.tar', size: content.length }, pieces(), arch)
}

async function membersOf(change: (members: Members) => void = () => {}): Promise<Buffer> {
  const { members } = await archiveOf(NAME, 'amd64')
  change(members)
  return await tarOf(members)
}

function whats({ findings }: Archive): readonly string[] {
  return findings.map(({ what }) => what)
}

describe('an archive', () => {
  it('is read in pieces of any size', async () => {
    for (const piece of [1, 511, 512, 4096, 1_000_000]) {
      const archive = await inspect(await membersOf(), 'amd64', piece)
      expect(archive.findings).toEqual([])
      expect(archive.names.map(({ name }) => name)).toEqual([NAME])
    }
  })

  it('may be packed with gzip, which containerd unpacks as well', async () => {
    expect((await inspect(gzipSync(await membersOf()))).findings).toEqual([])
  })

  it('is refused when its gzip ends early', async () => {
    const packed = gzipSync(await membersOf())
    expect(whats(await inspect(packed.subarray(0, -10)))).toEqual([
      expect.stringContaining('is no whole gzip tar'),
    ])
  })

  it('is refused at whatever byte it ends early', async () => {
    const whole = await membersOf()
    for (const length of [0, 1, 512, 700, 1536, whole.length - 1024, whole.length - 1]) {
      const archive = await inspect(whole.subarray(0, length))
      expect(archive.findings).toHaveLength(1)
      expect(archive.names).toEqual([])
    }
  })

  it('is refused without content for the architecture of the nodes', async () => {
    expect(whats(await inspect(await membersOf(), 'arm64'))).toEqual([
      'has no content for linux/arm64, only for linux/amd64',
    ])
  })

  it('is refused for a single manifest of another architecture', async () => {
    const { members } = await archiveOf(NAME, 'arm64', { index: false, platforms: ['linux/arm64'] })
    expect(whats(await inspect(await tarOf(members)))).toEqual([
      'has no content for linux/amd64, only for linux/arm64',
    ])
  })

  it('passes with a single manifest of Docker’s media types', async () => {
    const spec = { index: false, platforms: ['linux/amd64'], mediaTypes: 'docker' } as const
    const { members } = await archiveOf(NAME, 'amd64', spec)
    expect((await inspect(await tarOf(members))).findings).toEqual([])
  })

  it('is refused without the manifest of a platform that containerd 1.x takes for its own', async () => {
    const { members } = await archiveOf(NAME, 'amd64', { platforms: ['linux/amd64', 'linux/386'] })
    expect(whats(await inspect(await tarOf(members)))).toEqual([
      expect.stringMatching(/^lacks the manifest sha256:\w+ for linux\/386$/),
    ])
  })

  it('is refused when a blob has another size than announced', async () => {
    const spec = { index: false, platforms: ['linux/amd64'] }
    const { members } = await archiveOf(NAME, 'amd64', spec)
    const { top } = await buildImage(NAME, spec)
    members.set(blobName(top.digest), Buffer.concat([top.data, Buffer.from(' ')]))
    expect(whats(await inspect(await tarOf(members)))).toEqual([
      `has ${top.data.length + 1} bytes of the manifest ${top.digest}, which has ${top.data.length}`,
    ])
  })

  it.each([
    ['[]', 'has an index.json that lists no image'],
    ['{"manifests":[]}', 'has an index.json that lists no image'],
    ['<html>', 'has an index.json that is no JSON'],
  ])('is refused with the index.json %s', async (text, what) => {
    const content = await membersOf((members) => members.set('index.json', Buffer.from(text)))
    expect(whats(await inspect(content))).toEqual([what])
  })

  it('is refused without a name', async () => {
    const content = await membersOf((members) => {
      const index = String(members.get('index.json')).replace('io.containerd.image.name', 'other')
      members.set('index.json', Buffer.from(index))
    })
    expect(whats(await inspect(content))).toEqual([expect.stringContaining('names no image')])
  })

  it('is refused with a short name, which no node looks for', async () => {
    const { top } = await buildImage(NAME)
    const content = await membersOf((members) => members.set('index.json', layoutIndex(['app:1.0'], top)))
    expect(whats(await inspect(content))).toEqual([
      'holds its image under the name app:1.0, for which no node looks: it looks for docker.io/library/app:1.0',
    ])
  })

  it('is refused with a digest in its name that is not its own', async () => {
    const { top } = await buildImage(NAME)
    const name = `docker.io/library/app@sha256:${'0'.repeat(64)}`
    const content = await membersOf((members) => members.set('index.json', layoutIndex([name], top)))
    expect(whats(await inspect(content))).toEqual([`holds ${top.digest} under the name ${name}`])
  })
})

describe('an archive of docker save', () => {
  const list = (config: string) =>
    JSON.stringify([{ Config: config, RepoTags: ['app:1.0'], Layers: ['l.tar'] }])
  const config = (architecture: string) => Buffer.from(JSON.stringify({ os: 'linux', architecture }))

  it('passes with what its list names, under the name that containerd gives it', async () => {
    const archive = await inspect(
      await tarOf(
        new Map([
          ['c.json', config('amd64')],
          ['l.tar', Buffer.from('layer')],
          ['manifest.json', Buffer.from(list('c.json'))],
        ]),
      ),
    )
    expect(archive.findings).toEqual([])
    expect(archive.names).toEqual([{ name: NAME }])
  })

  it('is refused without a layer, and for another architecture', async () => {
    const members: Members = new Map([
      ['c.json', config('arm64')],
      ['manifest.json', Buffer.from(list('c.json'))],
    ])
    expect(whats(await inspect(await tarOf(members)))).toEqual([
      'lacks l.tar, which its manifest.json names',
      'has no content for linux/amd64, only for linux/arm64',
    ])
  })

  it('is refused with a list that cannot be read', async () => {
    const members: Members = new Map([['manifest.json', Buffer.from('{}')]])
    expect(whats(await inspect(await tarOf(members)))).toEqual(['has a manifest.json that cannot be read'])
  })
})
