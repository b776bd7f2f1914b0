import { describe, expect, it } from 'vitest'
import { nodeUnit } from '../../src/iso/units.ts'
import { formatRecord, type IsoRecord, parseRecord } from '../../src/record/record.ts'

const hash = 'a'.repeat(64)
const record: IsoRecord = {
  platform: 'linux/amd64',
  cloudstack: '4.22',
  epoch: 1_700_000_000,
  versions: { kubernetes: '1.33.13', network: '/home/a user/100%.yaml', ccm: '1.2.0' },
  files: [
    {
      path: 'network.yaml',
      sha256: hash,
      source: 'file:/home/a user/100%.yaml',
      sourceSha256: 'b'.repeat(64),
    },
    {
      path: 'k8s/kubeadm',
      sha256: hash,
      source: 'https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubeadm',
    },
  ],
  images: [
    { reference: `quay.io/a/b:v1@sha256:${hash}`, digest: `sha256:${hash}`, path: 'docker/b:v1.tar' },
    { reference: 'registry.k8s.io/pause:3.10', digest: `sha256:${hash}`, path: 'docker/pause:3.10.tar' },
  ],
}

describe('versions.txt', () => {
  it('is plain lines in a fixed order', () => {
    expect(formatRecord(record)).toBe(`# cks-iso versions 1
platform linux/amd64
cloudstack 4.22
epoch 1700000000
version kubernetes 1.33.13
version ccm 1.2.0
version network /home/a%20user/100%25.yaml
file k8s/kubeadm sha256:${hash} https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubeadm
file network.yaml sha256:${hash} file:/home/a%20user/100%25.yaml sha256:${'b'.repeat(64)}
image quay.io/a/b:v1@sha256:${hash} sha256:${hash} docker/b:v1.tar
image registry.k8s.io/pause:3.10 sha256:${hash} docker/pause:3.10.tar
`)
  })

  it('is read back as it was written', () => {
    const text = formatRecord(record)
    const back = parseRecord(text, 'versions.txt')
    expect(formatRecord(back)).toBe(text)
    expect(back.versions).toEqual(record.versions)
    expect(back.files).toEqual(expect.arrayContaining([...record.files]))
    expect(back.images).toEqual(record.images)
  })

  it('keeps a value with line ends on its line', () => {
    const text = formatRecord({ ...record, versions: { network: 'a\nimage x' } })
    expect(text.split('\n').filter((line) => line.startsWith('image'))).toHaveLength(2)
    expect(parseRecord(text, 'v').versions.network).toBe('a\nimage x')
  })

  const start = '# cks-iso versions 1\nplatform linux/amd64\ncloudstack 4.22\nepoch 1\n'
  it.each([
    ['<html>', 'its first line'],
    ['', 'its first line'],
    [`${start}file k8s/kubeadm ${hash} https://x\n`, 'line 5.*path, sha256'],
    [`${start}file k8s/kubeadm sha256:${hash}\n`, 'line 5'],
    [`${start}file a sha256:${hash} u\nfile a sha256:${hash} u\n`, 'line 6.*already'],
    [`${start}image NOT/AN/IMAGE sha256:${hash} docker/a.tar\n`, 'line 5.*reference'],
    [`${start}image a/b:1 sha256:abc docker/a.tar\n`, 'line 5.*digest'],
    [`${start}version unknown 1\n`, 'line 5.*known name'],
    [`${start}version ccm 1\nversion ccm 2\n`, 'line 6'],
    [`${start}other\n`, 'line 5.*starts with'],
    [`${start}\n`, 'line 5'],
    [`${start}cloudstack 4.23\n`, 'line 5.*one CloudStack release'],
    ['# cks-iso versions 1\ncloudstack 4\n', 'line 2.*MAJOR.MINOR'],
    ['# cks-iso versions 1\nplatform linux/amd64\ncloudstack 4.22\n', 'no epoch line'],
    ['# cks-iso versions 1\nplatform linux/amd64\nepoch 1\n', 'no cloudstack line'],
    ['# cks-iso versions 1\ncloudstack 4.22\nepoch 1\n', 'no platform line'],
  ])('that reads %j is refused', (text, why) => {
    expect(() => parseRecord(text, 'old.txt')).toThrow(new RegExp(`old\\.txt.*${why}`))
  })
})

describe('a unit of the node', () => {
  const unit = '[Service]\nExecStart=/usr/bin/kubelet\n'

  it('has its programs in /opt/bin', () => {
    expect(nodeUnit(unit, 'kubelet.service', 'https://x')).toBe('[Service]\nExecStart=/opt/bin/kubelet\n')
  })

  it.each([
    '',
    '404: Not Found',
    '<html></html>',
    '[Unit]\nDescription=x\n',
    '[Service]\nExecStart=/usr/bin/sshd\n',
  ])('is refused when it reads %j', (text) => {
    expect(() => nodeUnit(text, 'kubelet.service', 'https://x')).toThrow(/https:\/\/x is no kubelet\.service/)
  })
})
