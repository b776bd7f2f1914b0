import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import type { SettingValues } from '../../src/request/settings.ts'
import { type Bench, buildFrom, makeBench } from '../harness.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const NETWORK = 'https://manifests.example/network.yaml'
const EXTRA = 'quay.io/operator/extra:1.0'

const pod = (image: string): string =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: net\nspec:\n  containers:\n    - name: a\n      image: ${image}\n`

let upstream: Upstream
let bench: Bench
let first: Awaited<ReturnType<typeof buildFrom>>

beforeAll(async () => {
  upstream = await startUpstream()
  bench = await makeBench()
  await publish()
  await upstream.registry.push(EXTRA)
  await upstream.registry.push('quay.io/net/agent:1.0')
  first = await buildFrom(upstream, bench, {
    'kubernetes-version': '1.33',
    network: NETWORK,
    'autoscaler-version': '1.33.4',
    'etcd-version': '3.5.21',
    'extra-images': EXTRA,
    'cloudstack-version': '4.23',
    'build-name': 'first',
    verify: 'false',
  })
})

afterAll(async () => {
  await bench?.close()
  await upstream?.close()
})

afterEach(async () => {
  upstream.restore()
  await publish()
})

async function publish(): Promise<void> {
  upstream.put(NETWORK, pod('quay.io/net/agent:1.0'))
}

const again = async (values: SettingValues = {}) =>
  await buildFrom(upstream, bench, {
    lock: first.versionsPath,
    'build-name': 'again',
    verify: 'false',
    ...values,
  })

const failure = async (values: SettingValues = {}): Promise<string> =>
  await again(values).then(
    () => 'it was built',
    (thrown: unknown) => (thrown instanceof Failure ? thrown.message : `unexpected: ${thrown}`),
  )

describe('a build from a lock', () => {
  it('is the ISO of the lock, byte for byte, though newer releases came since', async () => {
    upstream.put('https://dl.k8s.io/release/stable-1.33.txt', 'v1.33.14\n')
    const { isoPath, record, log } = await again()
    expect(record).toEqual(first.record)
    expect((await readFile(isoPath)).equals(await readFile(first.isoPath))).toBe(true)
    expect(log.warnings).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('verify is false') }),
    )
  })

  it('takes the ISO itself for a lock, and a URL', async () => {
    expect((await again({ lock: first.isoPath })).isoSha256).toBe(first.isoSha256)
    const url = 'https://manifests.example/first.versions.txt'
    upstream.put(url, await readFile(first.versionsPath))
    expect((await again({ lock: url })).isoSha256).toBe(first.isoSha256)
  })

  it('is checked when nobody says otherwise', async () => {
    const { stages } = await again({ verify: '' })
    expect(stages.map(({ name }) => name)).toContain('Verify')
    expect(first.stages.map(({ name }) => name)).not.toContain('Verify')
  })

  it('takes a file from another path for one that was a file then', async () => {
    const [here, there] = [join(bench.dir, 'here.yaml'), join(bench.dir, 'there.yaml')]
    await writeFile(here, pod('quay.io/net/agent:1.0'))
    const locked = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      network: here,
      'build-name': 'own',
      verify: 'false',
    })
    await rm(here)
    expect(await failure({ lock: locked.versionsPath })).toMatch(
      /here\.yaml: there is no such file.*network/s,
    )
    await writeFile(there, pod('quay.io/net/agent:1.0'))
    const same = await again({ lock: locked.versionsPath, network: there })
    expect(same.isoSha256).toBe(locked.isoSha256)
    await writeFile(there, pod('quay.io/net/agent:1.1'))
    expect(await failure({ lock: locked.versionsPath, network: there })).toMatch(
      /the network manifest: \S*there\.yaml has changed: it is SHA-256 \w{64} now, and the lock says \w{64}/,
    )
  })
})

describe('is refused, naming the thing', () => {
  it('a manifest that has changed', async () => {
    upstream.put(NETWORK, pod('quay.io/net/agent:1.1'))
    expect(await failure()).toMatch(
      new RegExp(`the network manifest: ${NETWORK} has changed: it is SHA-256 \\w{64} now, and the lock`),
    )
  })

  it('a program that has changed, though its published checksum has as well', async () => {
    const url = 'https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubectl'
    upstream.put(url, 'other')
    upstream.put(`${url}.sha256`, 'd9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa')
    expect(await failure()).toMatch(/kubectl: https:\/\/dl\.k8s\.io\S* has changed: it is SHA-256/)
  })

  it('a file that is gone', async () => {
    upstream.fault('https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubelet', {
      kind: 'answer',
      status: 404,
    })
    expect(await failure()).toMatch(/Cannot download kubelet: https:.*404/)
  })

  it('a tag that has moved', async () => {
    const { digest: old } = await upstream.registry.push(EXTRA)
    const { digest } = await upstream.registry.push(EXTRA, { mark: 'moved' })
    const before = await readdir(bench.out)
    expect(await failure()).toContain(
      `The image ${EXTRA} (asked for by lock) has changed: it is ${digest} now, and the lock says ${old}`,
    )
    expect(await readdir(bench.out)).toEqual(before)
    await upstream.registry.push(EXTRA)
  })

  it('an image that is no part of the lock', async () => {
    await upstream.registry.push('quay.io/operator/other:1.0')
    expect(await failure({ 'extra-images': 'quay.io/operator/other:1.0' })).toMatch(
      /quay\.io\/operator\/other:1\.0 \(asked for by extra-images\) is not in the lock .*first-x86_64\.versions\.txt/,
    )
  })

  it('inputs that say something else than the lock, all at once', async () => {
    const message = await failure({ 'ccm-version': '1.3.0-rc1', 'csi-version': 'v3.0.0', arch: 'arm64' })
    expect(message).toMatch(/arch: this build is for linux\/arm64, and the lock \S+ for linux\/amd64/)
    expect(message).toMatch(/ccm-version: this build is for 1\.3\.0-rc1, and the lock \S+ for 1\.2\.0/)
    expect(message).not.toContain('csi-version')
  })

  it.each([
    ['that is missing', undefined, /lock: .*bad\.txt: ENOENT.*\nSet lock to the path or URL/],
    ['that is no record', () => '<html>', /bad\.txt is no versions\.txt/],
    [
      'without a line',
      (text: string) => text.replace(/file kubelet\.service.*\n/, ''),
      /no line for kubelet\.s/,
    ],
    [
      'with another checksum',
      (text: string) => text.replace(/(kubectl sha256:)./, '$1g'),
      /line \d+.*kubectl/,
    ],
    [
      'whose file came from nowhere',
      (text: string) => text.replace(/(file k8s\/kubectl \S+) \S+/, '$1 ftp://x/y'),
      /does not say from which URL k8s\/kubectl came/,
    ],
    [
      'with a password in a URL',
      (text: string) => text.replace(/(file k8s\/kubectl \S+) https:\/\//, '$1 https://me:secret@'),
      /does not say from which URL k8s\/kubectl came/,
    ],
    [
      'for an unknown version',
      (text: string) => text.replace(/(version ccm) \S+/, '$1 latest'),
      /ccm-version/,
    ],
    [
      'that was edited on the ISO alone',
      (text: string) => text.replace(/(file autoscaler\.yaml sha256:)\w{8}/, '$100000000'),
      /differs from the lock[\s\S]*\n- file autoscaler\.yaml sha256:00000000.*\n\+ file autoscaler\.yaml/,
    ],
    ['of a later time', (text: string) => text.replace(/epoch \d+/, 'epoch 9999999999'), /epoch|time/],
  ])('a lock %s', async (_title, edit, message) => {
    const lock = join(bench.dir, 'bad.txt')
    await rm(lock, { force: true })
    if (edit !== undefined) await writeFile(lock, edit(await readFile(first.versionsPath, 'utf8')))
    const found = await failure({ lock })
    expect(found).toMatch(message)
    expect(found).not.toContain('secret')
  })
})
