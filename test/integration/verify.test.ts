import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import type { Arch } from '../../src/arch.ts'
import { type ContainerdBinaries, startContainerd } from '../../src/images/containerd.ts'
import { type Finding, formatFindings } from '../../src/verify/finding.ts'
import { verifyIso } from '../../src/verify/verify.ts'
import { type Workspace, withWorkspace } from '../../src/workspace.ts'
import { containerds } from '../containerds.ts'
import { keptLog } from '../log.ts'
import { tinyElf } from '../upstream/elf.ts'
import { buildImage } from '../upstream/images.ts'
import {
  archiveOf,
  blobName,
  type Draft,
  draftIso,
  type IsoArchive,
  layoutIndex,
  podOf,
  rolesIn,
  tarOf,
  writeDraft,
} from '../verify-rig.ts'

const run = promisify(execFile)

const PAUSE = 'registry.k8s.io/pause:3.10'

interface Options {
  readonly arch?: Arch
  readonly cloudstack?: string
  readonly kubeadmImages?: readonly string[]
  /** Changes the ISO after it was written. */
  readonly after?: (iso: string, workspace: Workspace) => Promise<void>
  readonly containerd?: ContainerdBinaries
}

/** Writes the good ISO with one change, and verifies it. */
async function findingsOf(
  change: (draft: Draft) => unknown,
  options: Options = {},
): Promise<readonly Finding[]> {
  const {
    arch = 'amd64',
    cloudstack = '4.22',
    after,
    containerd = firstContainerd(),
    kubeadmImages,
  } = options
  return await withWorkspace(tmpdir(), new AbortController().signal, async (workspace) => {
    const draft = await draftIso(arch)
    await change(draft)
    const isoPath = await writeDraft(draft, arch, workspace)
    await after?.(isoPath, workspace)
    const optional = kubeadmImages === undefined ? {} : { kubeadmImages }
    const request = { isoPath, cloudstack, containerd, workspace, log: keptLog(), ...optional }
    return (await verifyIso(request)).findings
  })
}

function firstContainerd(): ContainerdBinaries {
  const [first] = containerds
  if (first === undefined) throw new Error('there is no containerd on this machine')
  return first
}

function archive(draft: Draft, reference: string): IsoArchive {
  const found = draft.archives.find((each) => each.reference === reference)
  if (found === undefined) throw new Error(`the draft has no ${reference}`)
  return found
}

/** Where and what of each finding, for one look. */
function lines(findings: readonly Finding[]): readonly string[] {
  return findings.map(({ severity, where, what }) => `${severity} ${where} ${what}`)
}

describe.each(containerds)('with $name', (containerd) => {
  it.each(['amd64', 'arm64'] as const)('passes a good ISO for %s', async (arch) => {
    expect(await findingsOf(() => {}, { arch, containerd })).toEqual([])
  })

  it('passes an ISO of the old script, whose archives ctr exported and which has no versions.txt', async () => {
    const findings = await findingsOf(
      async (draft) => {
        const exported = await exportAll(draft, containerd)
        draft.finish.push((files) => {
          files.delete('versions.txt')
          for (const [path, data] of exported) files.set(path, data)
        })
      },
      { containerd },
    )
    expect(lines(findings)).toEqual(['notice versions.txt is missing'])
  })

  it('refuses a layer that no node can unpack, though its digest is right', async (context) => {
    if (process.getuid?.() !== 0) context.skip('unpacking takes root')
    const findings = await findingsOf(
      (draft) => {
        const broken = archiveWithBrokenLayer(PAUSE)
        draft.archives.splice(draft.archives.indexOf(archive(draft, PAUSE)), 1, broken)
      },
      { containerd },
    )
    expect(lines(findings)).toEqual([
      expect.stringContaining('error docker/pause:3.10.tar cannot be imported and unpacked'),
    ])
  })
})

/** Exports every image but the pinned one with the real ctr, as the old script did. */
async function exportAll(draft: Draft, binaries: ContainerdBinaries): Promise<ReadonlyMap<string, Buffer>> {
  return await withWorkspace(tmpdir(), new AbortController().signal, async ({ dir, programs }) => {
    const log = keptLog()
    const containerd = await startContainerd({ dir: join(dir, 'c'), programs, binaries, mirrors: [], log })
    const exported = new Map<string, Buffer>()
    const { stdout: help } = await containerd.ctr(['image', 'import', '--help'], CTR)
    const local = help.includes('--local') ? ['--local'] : []
    for (const { reference, fileName, members } of draft.archives) {
      if (reference.includes('@')) continue
      const [from, to] = [join(dir, 'from.tar'), join(dir, 'to.tar')]
      await writeFile(from, await tarOf(members))
      const imported = await containerd.ctr(['image', 'import', ...local, '--no-unpack', from], CTR)
      const done = await containerd.ctr(['image', 'export', ...local, to, reference], CTR)
      expect([imported.exitCode, done.exitCode]).toEqual([0, 0])
      exported.set(`docker/${fileName}`, await readFile(to))
    }
    return exported
  })
}

const CTR = { what: 'Cannot export', next: 'Look at ctr.', timeout: 60_000 }

/** The archive of an image whose layer is no gzip tar, with digests that are right. */
function archiveWithBrokenLayer(reference: string): IsoArchive {
  const digestOf = (data: Buffer): string => `sha256:${createHash('sha256').update(data).digest('hex')}`
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))
  const layer = Buffer.from('this was never compressed')
  const config = json({
    os: 'linux',
    architecture: 'amd64',
    rootfs: { type: 'layers', diff_ids: [digestOf(layer)] },
  })
  const type = 'application/vnd.oci.image'
  const manifest = json({
    schemaVersion: 2,
    mediaType: `${type}.manifest.v1+json`,
    config: { mediaType: `${type}.config.v1+json`, digest: digestOf(config), size: config.length },
    layers: [{ mediaType: `${type}.layer.v1.tar+gzip`, digest: digestOf(layer), size: layer.length }],
  })
  const top = { mediaType: `${type}.manifest.v1+json`, digest: digestOf(manifest), data: manifest }
  return {
    reference,
    digest: top.digest,
    fileName: 'pause:3.10.tar',
    members: new Map([
      ['oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')],
      ['index.json', layoutIndex([reference], top)],
      ...[layer, config, manifest].map((data): [string, Buffer] => [blobName(digestOf(data)), data]),
    ]),
  }
}

interface Fault {
  readonly fault: string
  readonly change?: (draft: Draft) => unknown
  readonly options?: Options
  /** Where and what of the error that names the fault. */
  readonly finding: RegExp
  /** How many more errors follow from the fault at most; absent: none. */
  readonly consequences?: number
}

const CCM = 'docker.io/apache/cloudstack-kubernetes-provider:v1.2.0'
const CCM_FILE = 'docker/cloudstack-kubernetes-provider:v1.2.0.tar'

const FAULTS: readonly Fault[] = [
  {
    fault: 'an archive without index.json',
    change: (draft) => archive(draft, PAUSE).members.delete('index.json'),
    finding: /^docker\/pause:3\.10\.tar has no index\.json/,
  },
  {
    fault: 'an archive without oci-layout',
    change: (draft) => archive(draft, PAUSE).members.delete('oci-layout'),
    finding: /^docker\/pause:3\.10\.tar has no oci-layout/,
  },
  {
    fault: 'an archive without its configuration',
    change: (draft) => {
      const found = archive(draft, PAUSE)
      found.members.delete(blobName(rolesIn(found, 'amd64').config))
    },
    finding: /^docker\/pause:3\.10\.tar lacks the configuration sha256:/,
  },
  {
    fault: 'an archive without a layer',
    change: (draft) => {
      const found = archive(draft, CCM)
      found.members.delete(blobName(rolesIn(found, 'amd64').layers[1] ?? ''))
    },
    finding: /^docker\/cloudstack-kubernetes-provider:v1\.2\.0\.tar lacks the layer sha256:/,
  },
  {
    fault: 'one flipped byte in a layer',
    change: (draft) => {
      const found = archive(draft, PAUSE)
      const name = blobName(rolesIn(found, 'amd64').layers[0] ?? '')
      const data = Buffer.from(found.members.get(name) ?? '')
      data.writeUInt8(data.readUInt8(20) ^ 1, 20)
      found.members.set(name, data)
    },
    finding: /^docker\/pause:3\.10\.tar has altered bytes in the layer sha256:/,
  },
  {
    fault: 'a truncated archive',
    change: (draft) => cut(draft, 'docker/pause:3.10.tar', (data) => data.subarray(0, data.length / 2)),
    finding: /^docker\/pause:3\.10\.tar is no whole tar/,
  },
  {
    fault: 'an archive that was cut between two of its files',
    change: (draft) => cut(draft, 'docker/pause:3.10.tar', (data) => data.subarray(0, -1024)),
    finding: /^docker\/pause:3\.10\.tar is no whole tar: the blocks that end it are missing/,
  },
  {
    fault: 'an empty file among the archives',
    change: (draft) => draft.finish.push((files) => files.set('docker/x.tar', Buffer.alloc(0))),
    finding: /^docker\/x\.tar is empty/,
    consequences: 1,
  },
  {
    fault: 'a checksum file among the archives',
    change: (draft) => draft.finish.push((files) => files.set('docker/SHA256SUMS', Buffer.alloc(600, 'a'))),
    finding: /^docker\/SHA256SUMS is no whole tar/,
    consequences: 1,
  },
  {
    fault: 'a folder among the archives',
    change: async (draft) => {
      const data = await tarOf(archive(draft, PAUSE).members)
      draft.finish.push((files) => files.set('docker/more/pause.tar', data))
    },
    finding: /^docker\/more is a directory/,
    consequences: 2,
  },
  {
    fault: 'an archive for another architecture',
    change: async (draft) => {
      const other = await archiveOf(CCM, 'arm64')
      archive(draft, CCM).members = other.members
    },
    finding:
      /^docker\/cloudstack-kubernetes-provider:v1\.2\.0\.tar has no content for linux\/amd64, only for linux\/arm64/,
  },
  {
    fault: 'an image of a manifest that is not there',
    change: (draft) => {
      draft.files.set('extra.yaml', Buffer.from(podOf('extra', 'docker.io/library/nginx:1.27')))
    },
    finding:
      /^extra\.yaml names docker\.io\/library\/nginx:1\.27, and no archive brings docker\.io\/library\/nginx:1\.27/,
  },
  {
    fault: 'no image of the control plane',
    change: (draft) => {
      const etcd = draft.archives.findIndex(({ reference }) => reference.includes('/etcd:'))
      draft.archives.splice(etcd, 1)
    },
    finding: /^the ISO has no image etcd/,
  },
  {
    fault: 'an image that kubeadm names and that is not there',
    options: { kubeadmImages: ['registry.k8s.io/kube-apiserver:v1.33.2'] },
    finding:
      /^kubeadm names registry\.k8s\.io\/kube-apiserver:v1\.33\.2, .*\(one brings registry\.k8s\.io\/kube-apiserver:v1\.33\.1\)/,
  },
  {
    fault: 'two pause images',
    change: async (draft) => {
      draft.archives.push(await archiveOf('registry.k8s.io/pause:3.9', 'amd64'))
    },
    finding:
      /^the ISO has 2 image names with "pause" in them: registry\.k8s\.io\/pause:3\.10 \(docker\/pause:3\.10\.tar\) and registry\.k8s\.io\/pause:3\.9/,
  },
  {
    fault: 'no pause image',
    change: (draft) => draft.archives.splice(draft.archives.indexOf(archive(draft, PAUSE)), 1),
    finding: /^the ISO has no pause image/,
  },
  {
    fault: 'no volume id',
    options: { after: async (iso) => await eraseVolumeId(iso) },
    finding: /^the ISO has no volume id/,
  },
  {
    fault: 'no Rock Ridge names',
    options: {
      after: async (iso, { dir }) => {
        await rm(iso)
        await run('genisoimage', [
          '-quiet',
          '-V',
          'CDROM',
          '-J',
          '-joliet-long',
          '-o',
          iso,
          join(dir, 'tree'),
        ])
      },
    },
    finding: /^the ISO has no Rock Ridge names/,
    consequences: Number.POSITIVE_INFINITY,
  },
  {
    fault: 'a saved error page as dashboard.yaml',
    change: (draft) => draft.files.set('dashboard.yaml', Buffer.from('<!DOCTYPE html><html>404</html>')),
    finding: /^dashboard\.yaml is an HTML or XML page/,
  },
  {
    fault: 'no dashboard.yaml for 4.22',
    change: (draft) => rename(draft, 'dashboard.yaml', 'headlamp.yaml'),
    finding: /^dashboard\.yaml is missing/,
  },
  {
    fault: 'Headlamp without its second name for 4.23',
    change: (draft) => rename(draft, 'dashboard.yaml', 'headlamp.yaml'),
    options: { cloudstack: '4.23' },
    finding: /^dashboard\.yaml is missing/,
  },
  {
    fault: 'Headlamp beside another dashboard for 4.23',
    change: (draft) => draft.files.set('headlamp.yaml', Buffer.from(podOf('other', PAUSE))),
    options: { cloudstack: '4.23' },
    finding: /^dashboard\.yaml is not the same as headlamp\.yaml/,
  },
  {
    fault: 'a kubelet of another architecture',
    change: (draft) => draft.files.set('k8s/kubelet', tinyElf('arm64', { stdout: '' })),
    finding: /^k8s\/kubelet is a program for arm64, on an ISO for amd64/,
  },
  {
    fault: 'a crictl archive that is not gzip',
    change: (draft) => draft.files.set('cri-tools/crictl-linux-amd64.tar.gz', Buffer.from('Not Found')),
    finding: /^cri-tools\/crictl-linux-amd64\.tar\.gz is no gzip archive: it begins "Not Found"/,
  },
  {
    fault: 'a truncated archive of CNI plugins',
    change: (draft) => {
      const path = 'cni/cni-plugins-amd64.tgz'
      const data = draft.files.get(path) ?? Buffer.alloc(0)
      draft.files.set(path, data.subarray(0, data.length - 20))
    },
    finding: /^cni\/cni-plugins-amd64\.tgz is no whole gzip tar/,
  },
  {
    fault: 'CNI plugins of another architecture',
    change: async (draft) => {
      const other = await draftIso('arm64')
      draft.files.set(
        'cni/cni-plugins-amd64.tgz',
        other.files.get('cni/cni-plugins-arm64.tgz') ?? Buffer.alloc(0),
      )
    },
    finding: /^cni\/cni-plugins-amd64\.tgz holds programs that are not for amd64: bridge \(arm64\)/,
  },
  {
    fault: 'two archives of CNI plugins',
    change: (draft) => {
      draft.files.set(
        'cni/cni-plugins-old-amd64.tgz',
        draft.files.get('cni/cni-plugins-amd64.tgz') ?? Buffer.alloc(0),
      )
    },
    finding:
      /^cni\/cni-plugins-\*64\.tgz means cni\/cni-plugins-amd64\.tgz and cni\/cni-plugins-old-amd64\.tgz/,
  },
  {
    fault: 'an etcd archive under the name of its architecture alone',
    change: (draft) => rename(draft, 'etcd/etcd-linux-amd64.tar.gz', 'etcd/etcd-linux-arm64.tar.gz'),
    finding: /^etcd\/etcd-linux-amd64\.tar\.gz is missing/,
  },
  {
    fault: 'an autoscaler without placeholders',
    change: (draft) => {
      const text = String(draft.files.get('autoscaler.yaml')).replace('<cluster-id>', 'x')
      draft.files.set('autoscaler.yaml', Buffer.from(text))
    },
    finding: /^autoscaler\.yaml has no <cluster-id>/,
  },
  {
    fault: 'a kubelet unit for another folder',
    change: (draft) =>
      draft.files.set('kubelet.service', Buffer.from('[Service]\nExecStart=/usr/bin/kubelet\n')),
    finding: /^kubelet\.service starts \/usr\/bin\/kubelet/,
  },
  {
    fault: 'a wrong digest of an image in versions.txt',
    change: (draft) => {
      archive(draft, PAUSE).digest = `sha256:${'0'.repeat(64)}`
    },
    finding:
      /^versions\.txt says that registry\.k8s\.io\/pause:3\.10 is sha256:0{64}, and docker\/pause:3\.10\.tar holds sha256:/,
  },
  {
    fault: 'a wrong checksum of a file in versions.txt',
    change: (draft) => editRecord(draft, (text) => text.replace(/(k8s\/kubeadm sha256:)\w{8}/, '$100000000')),
    finding: /^versions\.txt says that k8s\/kubeadm has the SHA-256 00000000/,
  },
  {
    fault: 'a missing image line in versions.txt',
    change: (draft) => editRecord(draft, (text) => text.replace(/^image \S+pause.*\n/m, '')),
    finding: /^versions\.txt has no line for docker\/pause:3\.10\.tar/,
  },
  {
    fault: 'a missing file line in versions.txt',
    change: (draft) => editRecord(draft, (text) => text.replace(/^file k8s\/kubectl.*\n/m, '')),
    finding: /^versions\.txt has no line for k8s\/kubectl/,
  },
  {
    fault: 'a file line too many in versions.txt',
    change: (draft) =>
      editRecord(draft, (text) =>
        text.replace('file k8s/kubectl', `file k8s/extra sha256:${'1'.repeat(64)} none\n$&`),
      ),
    finding: /^versions\.txt has a line for k8s\/extra, which is not on the ISO/,
  },
  {
    fault: 'an image line too many in versions.txt',
    change: (draft) =>
      editRecord(draft, (text) => `${text}image ${CCM} sha256:${'2'.repeat(64)} docker/more.tar\n`),
    finding: /^versions\.txt has a line for docker\/more\.tar, which is not on the ISO/,
  },
  {
    fault: 'a versions.txt that cannot be read',
    change: (draft) => editRecord(draft, () => 'kubernetes 1.33\n'),
    finding: /^versions\.txt is no versions\.txt that this release reads/,
  },
]

describe('a broken ISO', () => {
  it.each(FAULTS)(
    'is refused for $fault',
    async ({ change = () => {}, options, finding, consequences = 0 }) => {
      const findings = await findingsOf(change, options)
      const errors = findings.filter(({ severity }) => severity === 'error')
      expect(errors.map(({ where, what }) => `${where} ${what}`)).toContainEqual(
        expect.stringMatching(finding),
      )
      expect(errors.length, formatFindings(findings)).toBeLessThanOrEqual(consequences + 1)
      for (const { why, fix } of errors) expect([why, fix]).not.toContain('')
    },
  )

  it('is refused for an image pinned by digest under the name that an export gives it', async () => {
    const findings = await findingsOf((draft) => {
      const pinned = draft.archives.at(-1)
      if (pinned === undefined) throw new Error('the draft has no archive')
      const index: { manifests: { mediaType: string; digest: string }[] } = JSON.parse(
        String(pinned.members.get('index.json')),
      )
      const data = pinned.members.get(blobName(pinned.digest)) ?? Buffer.alloc(0)
      const top = { mediaType: index.manifests[0]?.mediaType ?? '', digest: pinned.digest, data }
      pinned.members.set('index.json', layoutIndex([pinned.reference], top))
    })
    expect(lines(findings)).toContainEqual(
      expect.stringMatching(
        /holds its image under the name quay\.io\/cilium\/cilium:v1\.17\.1@sha256:\w+, for which no node looks: it looks for quay\.io\/cilium\/cilium@sha256:/,
      ),
    )
    expect(lines(findings)).toContainEqual(
      expect.stringMatching(
        /^error network\.yaml names quay\.io\/cilium\/cilium:v1\.17\.1@sha256:\w+, and no archive brings/,
      ),
    )
  })
})

describe('an ISO that works', () => {
  it('gets a notice, with the size, for an image that nothing asks for', async () => {
    const findings = await findingsOf(async (draft) => {
      draft.archives.push(await archiveOf('docker.io/library/unused:1.0', 'amd64'))
    })
    expect(lines(findings)).toEqual([
      expect.stringMatching(
        /^notice docker\/unused:1\.0\.tar is named by no manifest and not by kubeadm, and takes \d/,
      ),
    ])
  })

  it('gets a notice when it has no versions.txt, as those of the old script', async () => {
    const findings = await findingsOf((draft) => draft.finish.push((files) => files.delete('versions.txt')))
    expect(lines(findings)).toEqual(['notice versions.txt is missing'])
  })

  it('passes for 4.23 with Headlamp under both names', async () => {
    const findings = await findingsOf(
      (draft) => draft.files.set('headlamp.yaml', draft.files.get('dashboard.yaml') ?? Buffer.alloc(0)),
      { cloudstack: '4.23' },
    )
    expect(findings).toEqual([])
  })

  it('passes with an image whose index names no platforms', async () => {
    const findings = await findingsOf(async (draft) => {
      const spec = { platforms: ['linux/amd64'], namesPlatforms: false }
      archive(draft, CCM).members = (await archiveOf(CCM, 'amd64', spec)).members
      archive(draft, CCM).digest = (await buildImage(CCM, spec)).top.digest
    })
    expect(findings).toEqual([])
  })
})

it('refuses a file that is no ISO', async () => {
  const request = { cloudstack: '4.22', containerd: firstContainerd(), log: keptLog() }
  const verifying = withWorkspace(tmpdir(), new AbortController().signal, async (workspace) => {
    const isoPath = join(workspace.dir, 'x.iso')
    await writeFile(isoPath, 'Not Found')
    return await verifyIso({ ...request, isoPath, workspace })
  })
  await expect(verifying).rejects.toThrow(/x\.iso is no whole ISO 9660 image/)
})

it('ends when it is cancelled, and leaves nothing behind', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'verify-test-'))
  const cancel = new AbortController()
  const log = { ...keptLog(), info: () => cancel.abort() }
  const verifying = withWorkspace(parent, new AbortController().signal, async (writing) => {
    const isoPath = await writeDraft(await draftIso('amd64'), 'amd64', writing)
    const request = { isoPath, cloudstack: '4.22', containerd: firstContainerd(), log }
    return await withWorkspace(
      parent,
      cancel.signal,
      async (workspace) => await verifyIso({ ...request, workspace }),
    )
  })
  await expect(verifying).rejects.toThrow(/cancelled|aborted/i)
  expect(await readdir(parent)).toEqual([])
  await rm(parent, { recursive: true })
})

it('tells the findings as text', async () => {
  const findings = await findingsOf((draft) => archive(draft, CCM).members.delete('index.json'))
  expect(formatFindings(findings)).toContain(
    `error   ${CCM_FILE}: has no index.json\n    why     nodes import`,
  )
})

function cut(draft: Draft, path: string, change: (data: Buffer) => Buffer): void {
  draft.finish.push((files) => files.set(path, change(files.get(path) ?? Buffer.alloc(0))))
}

function editRecord(draft: Draft, change: (text: string) => string): void {
  draft.finish.push((files) =>
    files.set('versions.txt', Buffer.from(change(String(files.get('versions.txt'))))),
  )
}

function rename(draft: Draft, from: string, to: string): void {
  draft.files.set(to, draft.files.get(from) ?? Buffer.alloc(0))
  draft.files.delete(from)
}

/** Volume descriptors stand from sector 16 on; the id is at byte 40 of the primary one, padded with blanks. */
async function eraseVolumeId(iso: string): Promise<void> {
  const data = await readFile(iso)
  data.fill(' ', 16 * 2048 + 40, 16 * 2048 + 72)
  await writeFile(iso, data)
}
