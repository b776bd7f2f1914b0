import { execFile } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { extract } from 'tar-stream'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Arch } from '../../src/arch.ts'
import { Cancelled, Failure } from '../../src/errors.ts'
import { writeArchive } from '../../src/images/archive.ts'
import { type Containerd, startContainerd } from '../../src/images/containerd.ts'
import { fetchContent } from '../../src/images/content.ts'
import { kubeadmImages } from '../../src/images/kubeadm.ts'
import { planImages, type WantedImage } from '../../src/images/plan.ts'
import { type PulledImage, planImagesWithTags, pullImages } from '../../src/images/pull.ts'
import { parseMirrors, registryMirrors } from '../../src/request/mirrors.ts'
import { type Workspace, withWorkspace } from '../../src/workspace.ts'
import { containerds, crictl } from '../containerds.ts'
import { runGroup } from '../log.ts'
import { type ClusterNode, startNode } from '../node.ts'
import { buildImage } from '../upstream/images.ts'
import { type FaultHook, type Registry, type RegistryFault, startRegistry } from '../upstream/registry.ts'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0
const TIMEOUT = 60_000

/** Platforms of an image as the large projects publish it. */
const MANY = ['linux/amd64', 'linux/386', 'linux/arm64/v8', 'linux/arm/v7', 'linux/s390x', 'windows/amd64']

/** Pauses that do not hold up a test. */
const PAUSES = [10, 20, 30]

const messages: string[] = []
const note = (message: string): void => void messages.push(message)
const log = { info: note, notice: note, warning: note, debug: note, group: runGroup }

let registry: Registry
let out: string

beforeAll(async () => {
  registry = await startRegistry()
})

afterAll(async () => {
  await registry.close()
})

beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), 'images-'))
  messages.length = 0
})

afterEach(async () => {
  registry.setFaults(() => undefined)
  await rm(out, { recursive: true })
})

describe.each(containerds)('images, with $name', { timeout: TIMEOUT }, (binaries) => {
  /** Lends a private containerd that reaches every registry of the tests by the mirror. */
  async function withContainerd<T>(
    body: (containerd: Containerd, workspace: Workspace) => Promise<T>,
    cancel: AbortSignal = new AbortController().signal,
    parent = tmpdir(),
  ): Promise<T> {
    return await withWorkspace(parent, cancel, async (workspace) => {
      const mirrors = registryMirrors(
        parseMirrors(registry.mirrors('registry.k8s.io', 'quay.io', 'docker.io', 'ghcr.io', 'localhost:1')),
      )
      const { programs } = workspace
      const dir = join(workspace.dir, 'containerd')
      const containerd = await startContainerd({ dir, programs, binaries, mirrors, log })
      registry.clearRequests()
      return await body(containerd, workspace)
    })
  }

  /** Pulls what is asked for into `out`. */
  async function pull(
    references: readonly string[],
    arch: Arch = 'amd64',
    cancel?: AbortSignal,
    parent?: string,
  ): Promise<readonly PulledImage[]> {
    const wanted: readonly WantedImage[] = references.map((reference) => ({
      reference,
      source: 'network.yaml',
    }))
    return await withContainerd(
      async (containerd, { signal, stop }) => {
        const options = { containerd, log, signal, pauses: PAUSES }
        const planned = await planImagesWithTags(wanted, options)
        return await pullImages(planned, { ...options, arch, dir: out, onFailure: stop })
      },
      cancel,
      parent,
    )
  }

  const asked = (method: string, kind: string) =>
    registry.requests.filter((request) => request.method === method && request.kind === kind)

  describe('an archive', () => {
    it('holds the index unchanged and the content of the one platform', async () => {
      const reference = 'quay.io/archive/plain:v1'
      const image = await buildImage(reference)
      const { digest } = await registry.push(reference)
      const [pulled] = await pull([reference])
      const path = join(out, 'plain:v1.tar')
      const entries = await readTar(path)

      expect(pulled).toEqual({
        reference,
        names: [reference],
        digest,
        fileName: 'plain:v1.tar',
        path,
        size: (await readFile(path)).length,
      })
      expect(digest).toBe(image.top.digest)
      expect(entries.get(blobName(digest))).toEqual(image.top.data)
      const manifest = JSON.parse(image.manifests.get('linux/amd64')?.data.toString() ?? '')
      const own = [manifest.config, ...manifest.layers].map((blob) => blob.digest)
      expect([...entries.keys()]).toEqual([
        'oci-layout',
        'index.json',
        ...[digest, image.manifests.get('linux/amd64')?.digest ?? '', ...own].toSorted().map(blobName),
      ])
      expect(JSON.parse(entries.get('index.json')?.toString() ?? '').manifests).toEqual([
        {
          mediaType: 'application/vnd.oci.image.index.v1+json',
          digest,
          size: image.top.data.length,
          annotations: {
            'io.containerd.image.name': reference,
            'org.opencontainers.image.ref.name': 'v1',
          },
        },
      ])
    })

    it('is of the platform that was asked for, whatever machine builds', async () => {
      const reference = 'quay.io/archive/foreign:v1'
      const image = await buildImage(reference, { platforms: MANY })
      await registry.push(reference, { platforms: MANY })
      const [pulled] = await pull([reference], 'arm64')
      const entries = await readTar(pulled?.path ?? '')
      const manifests = MANY.filter((platform) =>
        entries.has(blobName(image.manifests.get(platform)?.digest ?? '')),
      )
      expect(manifests).toEqual(['linux/arm64/v8', 'linux/arm/v7'])
      const manifest = JSON.parse(image.manifests.get('linux/arm64/v8')?.data.toString() ?? '')
      for (const { digest } of [manifest.config, ...manifest.layers]) {
        expect(entries.has(blobName(digest))).toBe(true)
      }
      expect(entries.size).toBe(2 + 1 + 2 + 3)
    })

    it('is the same, byte for byte, whenever it is made', async () => {
      const reference = 'quay.io/archive/same:v1'
      await registry.push(reference, { platforms: MANY, padding: 200_000 })
      await pull([reference])
      const first = await readFile(join(out, 'same:v1.tar'))
      await rm(join(out, 'same:v1.tar'))
      await pull([reference])
      expect(first.equals(await readFile(join(out, 'same:v1.tar')))).toBe(true)
    })

    it('of a layer that changed on the disk is refused, and nothing of it is left', async () => {
      const reference = 'quay.io/archive/altered:v1'
      await registry.push(reference, { padding: 200_000 })
      const [planned] = planImages([{ reference, source: 'network.yaml' }])
      if (planned === undefined) throw new Error('no plan')
      await withContainerd(async (containerd, { signal }) => {
        const context = { containerd, log, signal, pauses: PAUSES }
        const content = await fetchContent(planned, 'amd64', context)
        const layer = content.layers.at(-1)
        const file = containerd.blobPath(layer?.digest ?? '')
        const bytes = await readFile(file)
        bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100)
        await chmod(file, 0o600)
        await writeFile(file, bytes)
        const writing = writeArchive(join(out, 'x.tar'), planned.names, content, containerd, signal)
        await expect(writing).rejects.toThrow(`The layer ${layer?.digest}`)
        await writeFile(file, bytes.subarray(1))
        const again = writeArchive(join(out, 'x.tar'), planned.names, content, containerd, signal)
        await expect(again).rejects.toThrow(Failure)
      })
      expect(await readdir(out)).toEqual([])
    })

    it.skipIf(!isRoot)('that does not fit on the disk fails, naming the disk as full', async () => {
      const reference = 'quay.io/archive/large:v1'
      await registry.push(reference, { padding: 3_000_000 })
      const disk = join(out, 'disk')
      await mkdir(disk)
      await run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk])
      try {
        const [planned] = planImages([{ reference, source: 'network.yaml' }])
        await withContainerd(async (containerd, { signal }) => {
          const options = { containerd, log, signal, arch: 'amd64', dir: disk } as const
          const pulling = pullImages(planned === undefined ? [] : [planned], options)
          await expect(pulling).rejects.toThrow(/ENOSPC.*\nThe disk that holds .*large:v1.tar is full/s)
        })
        expect(await readdir(disk)).toEqual([])
      } finally {
        await run('umount', [disk])
      }
    })
  })

  describe('pulling', () => {
    it('asks for the layers of one platform only, and for a shared layer once', async () => {
      await registry.push('quay.io/pull/a:v1')
      await registry.push('quay.io/pull/b:v1')
      const pulled = await pull(['quay.io/pull/a:v1', 'quay.io/pull/b:v1'])
      expect(pulled.map(({ reference }) => reference)).toEqual(['quay.io/pull/a:v1', 'quay.io/pull/b:v1'])
      const blobs = asked('GET', 'blob').map(({ reference }) => reference)
      expect(blobs).toHaveLength(5)
      expect(new Set(blobs).size).toBe(5)
      expect(messages.at(-1)).toMatch(/^pulled 2 of 2, 1 MB, \d+\.\d MB\/s: quay\.io\/pull\/[ab]:v1$/)
    })

    it('takes an image of Docker media types, and one without an index', async () => {
      const single = { platforms: ['linux/amd64'], index: false } as const
      await registry.push('docker.io/library/docker:v1', { platforms: MANY, mediaTypes: 'docker' })
      const { digest } = await registry.push('docker.io/pull/single:v1', single)
      await registry.push('docker.io/pull/both:v1', { ...single, mediaTypes: 'docker' })
      const pulled = await pull(['docker:v1', 'pull/single:v1', 'docker.io/pull/both:v1'])
      expect(pulled.map(({ fileName }) => fileName)).toEqual([
        'docker:v1.tar',
        'single:v1.tar',
        'both:v1.tar',
      ])
      expect(pulled[1]?.digest).toBe(digest)
    })

    it.each([
      [
        'with an index',
        { platforms: ['linux/arm64/v8', 'linux/s390x'], attestations: true },
        'linux/arm64/v8, linux/s390x',
      ],
      ['without one', { platforms: ['linux/arm64'], index: false }, 'linux/arm64'],
    ])('refuses an image %s that is not offered for the platform', async (_, spec, offered) => {
      await registry.push('quay.io/pull/elsewhere:v1', spec)
      const failure = await failureOf(pull(['quay.io/pull/elsewhere:v1']))
      expect(failure).toContain(
        `The image quay.io/pull/elsewhere:v1 (asked for by network.yaml) is not offered for linux/amd64, only for ${offered}\n`,
      )
      expect(await readdir(out)).toEqual([])
    })

    it('fails at once for an image that does not exist, naming who asks for it', async () => {
      await registry.push('quay.io/pull/there:v1')
      const failure = await failureOf(pull(['quay.io/pull/there:v2']))
      expect(failure).toMatch(
        /^The registry does not have the image quay\.io\/pull\/there:v2 by the mirror http:/,
      )
      expect(failure).toContain('(asked for by network.yaml)')
      expect(registry.requests).toHaveLength(1)
    })

    it('fails for a digest that the registry does not have', async () => {
      const reference = `quay.io/pull/there:v1@sha256:${'0'.repeat(64)}`
      expect(await failureOf(pull([reference]))).toMatch(/^The registry does not have the image/)
    })

    it('refuses an image of the old schema 1 format without a second try', async () => {
      const digest = `sha256:${'a'.repeat(64)}`
      registry.setFaults(({ kind, method }) => {
        const body = schema1Manifest()
        const headers = {
          'content-type': 'application/vnd.docker.distribution.manifest.v1+prettyjws',
          'docker-content-digest': digest,
          'content-length': String(body.length),
        }
        if (kind !== 'manifest') return undefined
        return { kind: 'answer', status: 200, headers, ...(method === 'HEAD' ? {} : { body }) }
      })
      const failure = await failureOf(pull(['quay.io/pull/old:v1']))
      expect(failure).toContain('is kept in the old schema 1 format')
      expect(messages.filter((message) => message.includes('again in'))).toEqual([])
    })

    it.each<[string, (kind: string, method: string) => boolean, RegistryFault]>([
      ['a server error for the tag', (_, method) => method === 'HEAD', { kind: 'answer', status: 503 }],
      ['a server error for a layer', (kind) => kind === 'blob', { kind: 'answer', status: 502 }],
      ['a layer that breaks off', (kind) => kind === 'blob', { kind: 'cut', bytes: 1000 }],
    ])('survives %s', async (_, hits, fault) => {
      await registry.push('quay.io/pull/shaky:v1', { padding: 500_000 })
      registry.setFaults(once(({ kind, method }) => (hits(kind, method) ? fault : undefined)))
      const [pulled] = await pull(['quay.io/pull/shaky:v1'])
      expect(pulled?.size).toBeGreaterThan(500_000)
    })

    it('waits as long as a registry that limits it asks for', async () => {
      await registry.push('quay.io/pull/limited:v1')
      let isOver = false
      registry.setFaults(({ kind }) =>
        isOver || kind !== 'manifest'
          ? undefined
          : { kind: 'answer', status: 429, headers: { 'retry-after': '1' } },
      )
      const pulling = pull(['quay.io/pull/limited:v1'])
      await expect
        .poll(() => messages.find((message) => message.includes('again in 1 s')), { timeout: 30_000 })
        .toContain('429')
      isOver = true
      const limitedAt = performance.now()
      expect(await pulling).toHaveLength(1)
      expect(performance.now() - limitedAt).toBeGreaterThan(800)
    })

    it('gives up after three more tries, naming the image and the last reason', async () => {
      await registry.push('quay.io/pull/down:v1')
      registry.setFaults(({ kind }) => (kind === 'manifest' ? { kind: 'answer', status: 500 } : undefined))
      const failure = await failureOf(pull(['quay.io/pull/down:v1']))
      expect(failure).toMatch(/^Cannot fetch the image quay\.io\/pull\/down:v1 .*500 Internal Server Error\n/)
      expect(messages.filter((message) => message.includes('again in'))).toHaveLength(3)
    })

    it('never asks a mirrored registry itself', async () => {
      let count = 0
      const origin = createServer((_, answer) => {
        count++
        answer.writeHead(404).end()
      })
      await new Promise<void>((listening) => origin.listen(0, '127.0.0.1', listening))
      const address = origin.address()
      const port = typeof address === 'object' ? address?.port : undefined
      const mirrors = registryMirrors(parseMirrors(`127.0.0.1:${port} http://${registry.host}/v2/mirrored`))
      try {
        await withWorkspace(tmpdir(), new AbortController().signal, async ({ dir, programs, signal }) => {
          const containerd = await startContainerd({ dir: join(dir, 'c'), programs, binaries, mirrors, log })
          const planned = planImages([{ reference: `127.0.0.1:${port}/a/b:v1`, source: 'network.yaml' }])
          const pulling = pullImages(planned, { containerd, log, signal, arch: 'amd64', dir: out })
          await expect(pulling).rejects.toThrow('does not have the image')
        })
      } finally {
        origin.close()
      }
      expect(registry.requests.at(-1)?.repository).toBe('mirrored/a/b')
      expect(count).toBe(0)
    })

    it('ends soon when it is cancelled, and leaves nothing behind', async () => {
      await registry.push('quay.io/pull/slow:v1')
      registry.setFaults(({ kind }) => (kind === 'blob' ? { kind: 'stall' } : undefined))
      const cancel = new AbortController()
      const parent = join(out, 'work')
      await mkdir(parent)
      const pulling = pull(['quay.io/pull/slow:v1'], 'amd64', cancel.signal, parent)
      pulling.catch(() => {})
      await expect.poll(() => asked('GET', 'blob').length, { timeout: 20_000 }).toBeGreaterThan(0)
      const cancelledAt = performance.now()
      cancel.abort()
      await expect(pulling).rejects.toThrow(Cancelled)
      expect(performance.now() - cancelledAt).toBeLessThan(5_000)
      expect(await readdir(parent)).toEqual([])
      expect(await readdir(out)).toEqual(['work'])
    })

    it('stops the others when one image fails, and tells why that one did', async () => {
      await registry.push('quay.io/pull/slow:v1')
      registry.setFaults(({ kind, repository }) =>
        kind === 'blob' && repository.endsWith('/slow') ? { kind: 'stall' } : undefined,
      )
      const failure = await failureOf(pull(['quay.io/pull/slow:v1', 'quay.io/pull/absent:v1']))
      expect(failure).toContain('does not have the image quay.io/pull/absent:v1')
    })
  })

  describe('a tag that is asked for alone and beside a digest', () => {
    it('is one image when it points at that digest', async () => {
      const { digest } = await registry.push('quay.io/tags/same:v1')
      const pulled = await pull(['quay.io/tags/same:v1', `quay.io/tags/same:v1@${digest}`])
      expect(pulled.map(({ reference, names }) => ({ reference, names }))).toEqual([
        {
          reference: `quay.io/tags/same:v1@${digest}`,
          names: [`quay.io/tags/same@${digest}`, 'quay.io/tags/same:v1'],
        },
      ])
    })

    it('is two images when it has moved on', async () => {
      const old = await registry.push('quay.io/tags/moved:v1')
      const now = await registry.push('quay.io/tags/moved:v1', { mark: 'moved' })
      const pulled = await pull(['quay.io/tags/moved:v1', `quay.io/tags/moved:v1@${old.digest}`])
      expect(pulled.map(({ names, digest }) => ({ names, digest }))).toEqual([
        { names: ['quay.io/tags/moved:v1'], digest: now.digest },
        { names: [`quay.io/tags/moved@${old.digest}`], digest: old.digest },
      ])
      expect(new Set(pulled.map(({ fileName }) => fileName)).size).toBe(2)
    })
  })

  describe('the private containerd', () => {
    it('works in a directory whose path is too long for a socket', async () => {
      const parent = join(out, 'x'.repeat(100), 'y'.repeat(100))
      await mkdir(parent, { recursive: true })
      await registry.push('quay.io/private/long:v1')
      expect(await pull(['quay.io/private/long:v1'], 'amd64', undefined, parent)).toHaveLength(1)
      expect(await readdir(parent)).toEqual([])
    })

    it.skipIf(!isRoot)('works for an ordinary user as for root', async () => {
      const reference = 'quay.io/private/user:v1'
      const { digest } = await registry.push(reference)
      await chown(out, 65_534, 65_534)
      const program = resolve(import.meta.dirname, '../pull-as-user.ts')
      const args = [program, binaries.containerd, binaries.ctr, out, registry.mirrors('quay.io'), reference]
      // Not the folders of root's own PATH, which this user may not look into.
      const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }
      const options = { uid: 65_534, gid: 65_534, env, timeout: TIMEOUT }
      const { stdout } = await run(process.execPath, args, options)
      expect(JSON.parse(stdout)).toMatchObject({ user: 65_534, pulled: [{ reference, digest }] })
      expect(await readdir(out)).toEqual(['user:v1.tar'])
    })

    it.each([
      ['ends at once', 'echo "no such plug-in" >&2; exit 3', /ended with 3: no such plug-in/],
      [
        'is of an unknown release',
        'exit 0',
        /unknown release: it calls itself "containerd github.com\/x 3\.0\.1"/,
      ],
    ])('that %s is refused with the reason', async (name, script, expected) => {
      const version = name.includes('unknown') ? '3.0.1' : '2.0.1'
      const fake = join(out, 'containerd')
      await writeFile(
        fake,
        `#!/bin/sh\nif [ "$1" = --version ]; then echo "containerd github.com/x ${version}"; exit; fi\n${script}\n`,
        { mode: 0o755 },
      )
      await withWorkspace(tmpdir(), new AbortController().signal, async ({ dir, programs }) => {
        const starting = startContainerd({
          dir: join(dir, 'containerd'),
          programs,
          binaries: { ...binaries, containerd: fake },
          mirrors: [],
          log,
        })
        expect(await failureOf(starting)).toMatch(expected)
      })
    })
  })

  describe.skipIf(!isRoot)('a cluster node', () => {
    let node: ClusterNode

    beforeEach(async () => {
      node = await startNode(binaries)
    })

    afterEach(async () => {
      await node.close()
    })

    it('imports every archive as its script does, and knows the images by their names', async () => {
      const pushed = await registry.push('quay.io/node/pinned:v1', { platforms: MANY, attestations: true })
      await registry.push('registry.k8s.io/node/pause:3.10', { platforms: MANY, mediaTypes: 'docker' })
      await registry.push('docker.io/library/node:v1', { platforms: ['linux/amd64'], index: false })
      const pulled = await pull([
        `quay.io/node/pinned:v1@${pushed.digest}`,
        'registry.k8s.io/node/pause:3.10',
        'node:v1',
      ])
      for (const { path } of pulled) await node.import(path)
      expect((await node.names()).toSorted()).toEqual([
        'docker.io/library/node:v1',
        'quay.io/node/pinned:v1',
        `quay.io/node/pinned@${pushed.digest}`,
        'registry.k8s.io/node/pause:3.10',
      ])
    })

    it('imports an image whose index names no platforms', async () => {
      const reference = 'quay.io/node/nameless:v1'
      const image = await buildImage(reference, { namesPlatforms: false })
      await registry.push(reference, { namesPlatforms: false })
      const [pulled] = await pull([reference])
      const entries = await readTar(pulled?.path ?? '')
      for (const manifest of image.allManifests) expect(entries.has(blobName(manifest.digest))).toBe(true)
      expect(entries.size).toBe(2 + 1 + 2 * 3 + 1)
      await node.import(pulled?.path ?? '')
      expect(await node.names()).toEqual([reference])

      await registry.push('quay.io/node/other:v1', { namesPlatforms: false, platforms: ['linux/s390x'] })
      expect(await failureOf(pull(['quay.io/node/other:v1']))).toContain('is not offered for linux/amd64')
    })

    it('imports without unpacking, and content for another platform', async () => {
      await registry.push('quay.io/node/foreign:v1', { platforms: MANY })
      const [pulled] = await pull(['quay.io/node/foreign:v1'], 'arm64')
      await node.import(pulled?.path ?? '', '--platform', 'linux/arm64', '--no-unpack')
      expect(await node.names()).toEqual(['quay.io/node/foreign:v1'])
    })

    it('before containerd 2 needs the manifests of kindred platforms, which is why archives hold them', async () => {
      const reference = 'quay.io/node/kin:v1'
      await registry.push(reference, { platforms: MANY })
      const image = await buildImage(reference, { platforms: MANY })
      const path = join(out, 'without.tar')
      const [planned] = planImages([{ reference, source: 'network.yaml' }])
      if (planned === undefined) throw new Error('no plan')
      await withContainerd(async (containerd, { signal }) => {
        const content = await fetchContent(planned, 'amd64', { containerd, log, signal, pauses: PAUSES })
        const documents = new Map(content.documents)
        expect(documents.delete(image.manifests.get('linux/386')?.digest ?? '')).toBe(true)
        await writeArchive(path, [reference], { ...content, documents }, containerd, signal)
      })
      if (/ 1\./.test(binaries.name)) await expect(node.import(path)).rejects.toThrow('not found')
      else await node.import(path)
    })

    it.skipIf(crictl === undefined)(
      'finds a pinned image under each spelling a manifest may use',
      async () => {
        const { digest } = await registry.push('quay.io/cri/pinned:v1', { platforms: MANY })
        const [pulled] = await pull([`quay.io/cri/pinned:v1@${digest}`])
        await node.import(pulled?.path ?? '')
        for (const spelling of [
          'quay.io/cri/pinned:v1',
          `quay.io/cri/pinned:v1@${digest}`,
          `quay.io/cri/pinned@${digest}`,
        ]) {
          expect(await node.find(crictl ?? '', spelling), spelling).toMatchObject({
            repoTags: ['quay.io/cri/pinned:v1'],
            repoDigests: [`quay.io/cri/pinned@${digest}`],
          })
        }
        expect(await node.find(crictl ?? '', 'quay.io/cri/pinned:v2')).toBeUndefined()
        expect(await node.list(crictl ?? '')).toHaveLength(1)
      },
    )

    it.skipIf(crictl === undefined)('finds an image that is pinned by digest alone', async () => {
      const { digest } = await registry.push('quay.io/cri/digest:v1')
      const [pulled] = await pull([`quay.io/cri/digest@${digest}`])
      expect(pulled?.fileName).toBe(`digest@${digest.slice(7, 19)}.tar`)
      await node.import(pulled?.path ?? '')
      expect(await node.find(crictl ?? '', `quay.io/cri/digest@${digest}`)).toBeDefined()
      expect(await node.find(crictl ?? '', `quay.io/cri/digest:v1@${digest}`)).toBeDefined()
    })
  })
})

describe('the images of a Kubernetes release', () => {
  const listed = [
    'registry.k8s.io/kube-apiserver:v1.33.13',
    'registry.k8s.io/kube-controller-manager:v1.33.13',
    'registry.k8s.io/kube-scheduler:v1.33.13',
    'registry.k8s.io/kube-proxy:v1.33.13',
    'registry.k8s.io/coredns/coredns:v1.12.0',
    'registry.k8s.io/pause:3.10',
    'registry.k8s.io/etcd:3.5.24-0',
  ]

  async function list(script: string): Promise<readonly string[]> {
    const kubeadm = join(out, 'kubeadm')
    await writeFile(kubeadm, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    return await withWorkspace(tmpdir(), new AbortController().signal, ({ programs }) =>
      kubeadmImages(programs, kubeadm, '1.33.13', log),
    )
  }

  it('are what its kubeadm lists for that very release, warnings aside', async () => {
    const script = `
      [ "$*" = 'config images list --kubernetes-version v1.33.13' ] || exit 9
      echo 'W0110 15:02:41.123456 1 version.go:101] could not fetch a Kubernetes version' >&2
      printf '%s\\n' ${listed.join(' ')}`
    expect(await list(script)).toEqual(listed)
  })

  it('cannot be had from a kubeadm that fails', async () => {
    expect(await failureOf(list('echo "exec format error" >&2; exit 126'))).toMatch(
      /^Cannot list the images of Kubernetes 1\.33\.13: .*exited with 126: exec format error\n/,
    )
  })
})

/** A fault that strikes the first time only. */
function once(hook: FaultHook): FaultHook {
  let isDone = false
  return (request) => {
    const fault = isDone ? undefined : hook(request)
    isDone ||= fault !== undefined
    return fault
  }
}

async function failureOf(promise: Promise<unknown>): Promise<string> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(thrown).toBeInstanceOf(Failure)
  return thrown instanceof Failure ? thrown.message : ''
}

function blobName(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`
}

async function readTar(path: string): Promise<ReadonlyMap<string, Buffer>> {
  const entries = new Map<string, Buffer>()
  for await (const entry of createReadStream(path).pipe(extract())) {
    expect(entry.header).toMatchObject({ mode: 0o644, uid: 0, gid: 0, mtime: new Date(0) })
    entries.set(entry.header.name, await buffer(entry))
  }
  return entries
}

/** A manifest in the format that registries spoke before 2015, with a signature that fits its length. */
function schema1Manifest(): string {
  const start = '{"schemaVersion":1,"name":"pull/old","tag":"v1","fsLayers":[],"history":[]'
  const encoded = (text: string): string => Buffer.from(text).toString('base64url')
  const format = encoded(JSON.stringify({ formatLength: start.length, formatTail: encoded('}') }))
  return `${start},"signatures":[{"header":{},"signature":"","protected":"${format}"}]}`
}
