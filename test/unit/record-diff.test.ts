import { describe, expect, it } from 'vitest'
import { diffRecords, formatDiff, isSame } from '../../src/record/diff.ts'
import type { IsoRecord, RecordedFile, RecordedImage } from '../../src/record/record.ts'

const [HASH_A, HASH_B] = ['a'.repeat(64), 'b'.repeat(64)]

const KUBEADM: RecordedFile = { path: 'k8s/kubeadm', sha256: HASH_A, source: 'https://dl.example/kubeadm' }

function image(reference: string, hash: string): RecordedImage {
  return { reference, digest: `sha256:${hash}`, path: `docker/${reference.split('/').at(-1)}.tar` }
}

const PAUSE = image('registry.k8s.io/pause:3.10', HASH_A)

const BEFORE: IsoRecord = {
  platform: 'linux/amd64',
  cloudstack: '4.22',
  epoch: 1_700_000_000,
  versions: { kubernetes: '1.33.1', crictl: '1.33.0', etcd: '3.5.21' },
  files: [KUBEADM],
  images: [PAUSE],
}

describe('the difference of two records', () => {
  it('is none for a record and itself', () => {
    const diff = diffRecords(BEFORE, BEFORE)
    expect(isSame(diff)).toBe(true)
    expect(formatDiff(diff)).toBe('No difference.\n')
  })

  it('names the platform and the time', () => {
    const diff = diffRecords(BEFORE, {
      ...BEFORE,
      platform: 'linux/arm64',
      cloudstack: '4.23',
      epoch: 1_700_000_001,
    })
    expect(isSame(diff)).toBe(false)
    expect(formatDiff(diff)).toBe(
      '~ platform linux/amd64 -> linux/arm64\n~ cloudstack 4.22 -> 4.23\n~ epoch 1700000000 -> 1700000001\n',
    )
  })

  it('names versions that came, went and changed', () => {
    const versions = { kubernetes: '1.33.2', crictl: '1.33.0', csi: '0.6.0' }
    const diff = diffRecords(BEFORE, { ...BEFORE, versions })
    expect(diff.versions).toEqual({
      added: [{ name: 'csi', version: '0.6.0' }],
      removed: [{ name: 'etcd', version: '3.5.21' }],
      moved: [
        { from: { name: 'kubernetes', version: '1.33.1' }, to: { name: 'kubernetes', version: '1.33.2' } },
      ],
    })
    expect(formatDiff(diff)).toBe(
      '- version etcd 3.5.21\n+ version csi 0.6.0\n~ version kubernetes 1.33.1 -> 1.33.2\n',
    )
  })

  it('compares files by what is in them', () => {
    const other = { ...KUBEADM, source: 'https://mirror.example/kubeadm' }
    expect(diffRecords(BEFORE, { ...BEFORE, files: [other] }).files.moved).toEqual([])
    const changed = { ...KUBEADM, sha256: HASH_B }
    const diff = diffRecords(BEFORE, { ...BEFORE, files: [changed, { ...KUBEADM, path: 'k8s/new' }] })
    expect(formatDiff(diff)).toBe(
      `+ file k8s/new sha256:${HASH_A}\n~ file k8s/kubeadm sha256:${HASH_A} -> sha256:${HASH_B}\n`,
    )
  })

  it('shows a tag that points at another image', () => {
    const diff = diffRecords(BEFORE, { ...BEFORE, images: [image('registry.k8s.io/pause:3.10', HASH_B)] })
    expect(formatDiff(diff)).toBe(`~ image registry.k8s.io/pause:3.10 sha256:${HASH_A} -> sha256:${HASH_B}\n`)
  })

  it('takes a new tag of a repository for the same image, moved', () => {
    const newer = image('registry.k8s.io/pause:3.10.1', HASH_B)
    const diff = diffRecords(BEFORE, { ...BEFORE, images: [newer] })
    expect(diff.images).toEqual({ added: [], removed: [], moved: [{ from: PAUSE, to: newer }] })
    expect(formatDiff(diff)).toBe(
      `~ image registry.k8s.io/pause:3.10 sha256:${HASH_A} -> registry.k8s.io/pause:3.10.1 sha256:${HASH_B}\n`,
    )
  })

  it('pairs nothing where a repository has several new tags', () => {
    const images = [image('registry.k8s.io/pause:3.11', HASH_B), image('registry.k8s.io/pause:3.12', HASH_B)]
    const diff = diffRecords(BEFORE, { ...BEFORE, images })
    expect(diff.images).toEqual({ added: images, removed: [PAUSE], moved: [] })
  })

  it('takes two spellings of one image for the same', () => {
    const [short, long] = [image('nginx:1.27', HASH_A), image('docker.io/library/nginx:1.27', HASH_A)]
    expect(isSame(diffRecords({ ...BEFORE, images: [short] }, { ...BEFORE, images: [long] }))).toBe(true)
  })

  it('is plain data, the same after a way through JSON', () => {
    const diff = diffRecords(BEFORE, { ...BEFORE, files: [], images: [] })
    expect(JSON.parse(JSON.stringify(diff))).toEqual(diff)
  })
})
