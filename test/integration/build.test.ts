import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openIso } from '../../src/iso/reader.ts'
import { parseRecord } from '../../src/record/record.ts'
import { containerds, crictl } from '../containerds.ts'
import { attempt, type Bench, buildFrom, makeBench, readIso } from '../harness.ts'
import { keptLog } from '../log.ts'
import { startNode } from '../node.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0
const root = join(import.meta.dirname, '../..')

let upstream: Upstream
let bench: Bench

beforeAll(async () => {
  upstream = await startUpstream()
  bench = await makeBench()
})

afterAll(async () => {
  await bench?.close()
  await upstream?.close()
})

afterEach(() => {
  upstream.restore()
  upstream.clearRequests()
  upstream.registry.setFaults(() => undefined)
})

describe.each(containerds)('a build with $name', ({ containerd }) => {
  const path = process.env.PATH
  beforeAll(() => {
    if (containerd.includes('/')) process.env.PATH = `${dirname(containerd)}:${path}`
  })
  afterAll(() => {
    process.env.PATH = path
  })

  it('of a minor with defaults puts everything a node needs on the ISO, and nothing else', async () => {
    const result = await buildFrom(upstream, bench, { 'kubernetes-version': '1.33' })
    expect(result.isoPath).toBe(join(bench.out, 'setup-v1.33.13-x86_64.iso'))
    const isoName = 'setup-v1.33.13-x86_64.iso'
    const kinds = ['md5', 'sha256', 'sha512']
    expect(await readdir(bench.out)).toEqual([
      'setup-v1.33.13-x86_64.cdx.json',
      isoName,
      ...kinds.map((kind) => `${isoName}.${kind}`),
      'setup-v1.33.13-x86_64.versions.txt',
    ])
    for (const kind of kinds) await run(`${kind}sum`, ['--check', `${isoName}.${kind}`], { cwd: bench.out })
    expect(await readdir(bench.temp)).toEqual([])

    const iso = await readIso(result.isoPath, bench)
    const { files: recorded, images, versions } = await iso.record()
    expect(iso.files.filter((file) => !file.startsWith('docker/'))).toEqual([
      '10-kubeadm.conf',
      'autoscaler.yaml',
      'cni/cni-plugins-amd64.tgz',
      'cri-tools/crictl-linux-amd64.tar.gz',
      'dashboard.yaml',
      'k8s/kubeadm',
      'k8s/kubectl',
      'k8s/kubelet',
      'kubelet.service',
      'manifest.yaml',
      'network.yaml',
      'provider.yaml',
      'snapshot-crds.yaml',
      'versions.txt',
    ])
    expect(iso.files.filter((file) => file.startsWith('docker/'))).toEqual(images.map((image) => image.path))
    expect(await readFile(result.versionsPath, 'utf8')).toBe(await iso.text('versions.txt'))
    expect(versions).toMatchObject({
      kubernetes: '1.33.13',
      ccm: '1.2.0',
      csi: '3.0.0',
      network: 'calico@3.32.1',
    })
    expect(versions).not.toHaveProperty('etcd')
    for (const file of recorded) {
      const { stdout } = await run('sha256sum', [join(iso.dir, file.path)])
      expect(stdout.slice(0, 64), file.path).toBe(file.sha256)
      expect(file.source, file.path).toMatch(/^https:\/\//)
    }
    const volume = await openIso(result.isoPath)
    expect(volume.volumeId).toBe('CDROM')
    await volume.close()
  })

  it('pins the two add-ons and leaves the rest of their manifests as it is', async () => {
    const result = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      'autoscaler-version': 'v1.33.4',
    })
    const iso = await readIso(result.isoPath, bench)
    const objects = await iso.objects('autoscaler.yaml')
    expect(objects).toHaveLength(8)
    const text = await iso.text('autoscaler.yaml')
    expect(text.match(/^.*image:.*$/gm)?.map((line) => line.trim().replace(/^- /, ''))).toEqual([
      'image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.4',
    ])
    for (const placeholder of ['<min>', '<max>', '<cluster-id>']) expect(text).toContain(placeholder)
    expect((await iso.text('provider.yaml')).match(/image: (.*)/)?.[1]).toBe(
      'apache/cloudstack-kubernetes-provider:v1.2.0',
    )
    expect(await iso.text('kubelet.service')).toContain('/opt/bin/kubelet')
    expect(result.log.notices.join()).toContain('glued')
  })

  it('gives archives that a node imports and finds by every reference of its manifests', async () => {
    const result = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      network: 'https://manifests.example/network-pinned.yaml',
    })
    const iso = await readIso(result.isoPath, bench)
    if (!isRoot) return
    const node = await startNode({ containerd, ctr: containerd.replace(/containerd$/, 'ctr') })
    try {
      for (const image of result.images) {
        expect(await iso.names(image.fileName)).toEqual(image.names.toSorted())
        await node.import(join(iso.dir, 'docker', image.fileName))
      }
      const names = await node.names()
      for (const image of result.images) expect(names).toEqual(expect.arrayContaining([...image.names]))
      expect(names.filter((name) => name.includes('pause'))).toEqual(['registry.k8s.io/pause:3.10'])
      const pinned = result.images.filter(({ reference }) => reference.includes('@sha256:'))
      expect(pinned.length).toBeGreaterThan(0)
      if (crictl !== undefined) {
        for (const { reference } of result.images)
          expect(await node.find(crictl, reference), reference).toBeDefined()
      }
    } finally {
      await node.close()
    }
  })
})

describe('a build', () => {
  it('for arm64 on this machine takes programs and images of arm64, and kubeadm of this machine for the list', async () => {
    const result = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      arch: 'aarch64',
      'etcd-version': 'v3.5.21',
      'build-name': 'cks+arm',
    })
    expect(result.isoPath).toBe(join(bench.out, 'cks+arm-aarch64.iso'))
    const iso = await readIso(result.isoPath, bench)
    const elf = await readFile(join(iso.dir, 'k8s/kubelet'))
    expect(elf.readUInt16LE(18)).toBe(183)
    const [arm, amd] = ['arm64', 'amd64'].map((name) => join(iso.dir, `etcd/etcd-linux-${name}.tar.gz`))
    expect(await readFile(arm ?? '')).toEqual(await readFile(amd ?? ''))
    expect((await iso.record()).versions.etcd).toBe('3.5.21')
    for (const { fileName } of result.images) {
      const { stdout } = await run('bsdtar', ['-xOf', join(iso.dir, 'docker', fileName), 'blobs/sha256/*'], {
        encoding: 'latin1',
        maxBuffer: 100_000_000,
      })
      expect(stdout, fileName).toContain('"architecture":"arm64"')
    }
  })

  it('for CloudStack 4.23 carries Headlamp under both names, pinned to its release', async () => {
    const result = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      'cloudstack-version': '4.23',
    })
    const iso = await readIso(result.isoPath, bench)
    expect(await iso.text('headlamp.yaml')).toBe(await iso.text('dashboard.yaml'))
    expect(await iso.text('headlamp.yaml')).toContain('ghcr.io/headlamp-k8s/headlamp:v0.45.0')
    expect(result.images.map(({ fileName }) => fileName)).toContain('headlamp:v0.45.0.tar')
    expect(result.log.warnings).toEqual([])
  })

  it('without a dashboard still has the dashboard.yaml that nodes apply, and warns of CloudStack 4.22', async () => {
    const result = await buildFrom(upstream, bench, { 'kubernetes-version': '1.33.13', dashboard: 'none' })
    const iso = await readIso(result.isoPath, bench)
    expect(await iso.objects('dashboard.yaml')).toMatchObject([{ kind: 'Namespace' }])
    expect(result.log.warnings.map(({ message }) => message).join()).toContain('CloudStack 4.22 waits')
  })

  it('from a file of the user takes its images', async () => {
    const file = join(bench.dir, 'my network.yaml')
    await writeFile(
      file,
      'apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: x\r\nspec:\r\n  containers:\r\n    - name: x\r\n      image: docker.io/library/own:1.0\r\n',
    )
    await upstream.registry.push('docker.io/library/own:1.0')
    const result = await buildFrom(upstream, bench, { 'kubernetes-version': '1.33.13', network: file })
    expect(result.images.map(({ reference }) => reference)).toContain('docker.io/library/own:1.0')
  })

  it('is byte for byte the same a second time', async () => {
    const first = await buildFrom(upstream, bench, { 'kubernetes-version': '1.33.13', 'build-name': 'one' })
    const second = await buildFrom(upstream, bench, { 'kubernetes-version': '1.33.13', 'build-name': 'two' })
    await run('cmp', [first.isoPath, second.isoPath])
  })

  it('warns of an autoscaler of another minor and goes on', async () => {
    const result = await buildFrom(upstream, bench, {
      'kubernetes-version': '1.33.13',
      'autoscaler-version': '1.32.7',
    })
    expect(result.log.warnings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/autoscaler-version 1\.32\.7 is for Kubernetes 1\.32.*1\.33\.13/),
    ])
    expect(result.record.versions.autoscaler).toBe('1.32.7')
  })
})

describe('a build fails and leaves nothing', () => {
  const html = '<!DOCTYPE html><html><body>Sign in</body></html>'
  const network = 'https://manifests.example/broken.yaml'
  const pod = (...images: string[]) =>
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n${images.map((image, i) => `    - name: c${i}\n      image: ${image}\n`).join('')}`

  const fails = async (values: Record<string, string>, expected: RegExp): Promise<void> => {
    const before = await readdir(bench.out)
    await expect(
      attempt(upstream, bench, { 'kubernetes-version': '1.33.13', ...values }, keptLog()),
    ).rejects.toThrow(expected)
    expect(await readdir(bench.temp)).toEqual([])
    expect(await readdir(bench.out)).toEqual(before)
  }

  it.each([
    [
      'ccm-version',
      'v9.9.9',
      /cloudstack-kubernetes-provider\/v9\.9\.9\/deployment\.yaml.* 404[\s\S]*ccm-version/,
    ],
    ['autoscaler-version', '1.33.99', /cluster-autoscaler-1\.33\.99\/.* 404[\s\S]*autoscaler-version/],
    [
      'dashboard',
      'https://manifests.example/gone.yaml',
      /manifests\.example\/gone\.yaml.* 404[\s\S]*dashboard/,
    ],
    ['kubernetes-version', '1.99', /no cluster-autoscaler release for 1\.99[\s\S]*autoscaler-version/],
    ['kubernetes-version', '1.33; rm -rf /', /kubernetes-version/],
    ['network', './absent.yaml', /absent\.yaml: there is no such file[\s\S]*network/],
    ['etcd-version', '9.9.9', /etcd-v9\.9\.9.* 404[\s\S]*etcd-version/],
  ])('on %s=%s', async (name, value, expected) => {
    await fails({ [name]: value }, expected)
  })

  it('when a page of HTML comes with status 200', async () => {
    upstream.put(network, html)
    await fails({ network }, /broken\.yaml.*HTML/i)
  })

  it('when a manifest is empty', async () => {
    upstream.put(network, '# nothing here\n')
    await fails({ network }, /broken\.yaml/)
  })

  it('when the manifest of the controller manager holds two images', async () => {
    upstream.put(
      'https://raw.githubusercontent.com/apache/cloudstack-kubernetes-provider/v1.2.0/deployment.yaml',
      pod('a/b:1', 'c/d:2'),
    )
    await fails({}, /deployment\.yaml.*2 container images.*a\/b:1.*c\/d:2/)
  })

  it('when the registry does not have an image, naming image and manifest', async () => {
    upstream.put(network, pod('quay.io/nobody/nothing:1.0'))
    await fails({ network }, /quay\.io\/nobody\/nothing:1\.0[\s\S]*network\.yaml/)
  })

  it('when an image is not made for the platform', async () => {
    await upstream.registry.push('quay.io/only/amd:1.0', { platforms: ['linux/amd64'] })
    upstream.put(network, pod('quay.io/only/amd:1.0'))
    await fails({ network, arch: 'arm64' }, /quay\.io\/only\/amd:1\.0[\s\S]*linux\/arm64/)
  })

  it('when a second pause image would confuse the node', async () => {
    upstream.put(network, pod('quay.io/x/pause:3.9'))
    await fails({ network }, /pause:3\.9/)
  })

  const kubelet = 'https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kubelet'
  it('when a checksum differs', async () => {
    upstream.put(`${kubelet}.sha256`, 'a'.repeat(64))
    await fails({}, /kubelet: https:\/\/dl\.k8s\.io.*has SHA-256/)
  })

  it('when a download stays truncated', async () => {
    upstream.fault(kubelet, { kind: 'cut', bytes: 10 })
    await fails({}, /kubelet: https:\/\/dl\.k8s\.io[\s\S]*(broke|announced)/)
  })

  it('when a binary is an error page', async () => {
    upstream.put(kubelet, html)
    const { stdout } = await run('sh', ['-c', `printf '%s' '${html}' | sha256sum`])
    upstream.put(`${kubelet}.sha256`, stdout.slice(0, 64))
    await fails({}, /kubelet is no amd64 Linux program/)
  })

  it('when a unit is empty', async () => {
    const repository = `${upstream.base}/github.com/shapeblue/cloudstack-nonoss`
    const { stdout } = await run('git', ['ls-remote', repository, 'HEAD'])
    const commit = stdout.slice(0, 40)
    upstream.put(
      `https://raw.githubusercontent.com/shapeblue/cloudstack-nonoss/${commit}/cks/kubelet.service`,
      '',
    )
    await fails({}, /kubelet\.service: it is empty/)
  })

  it('when output-dir is a file', async () => {
    const file = join(bench.dir, 'file')
    await writeFile(file, '')
    await fails({ 'output-dir': join(file, 'out') }, /output-dir cannot be written to/)
  })

  it('when a directory stands where the record goes, and the ISO of an earlier build stays', async () => {
    const out = join(bench.dir, 'taken')
    await mkdir(join(out, 'old-x86_64.versions.txt'), { recursive: true })
    await writeFile(join(out, 'old-x86_64.iso'), 'earlier')
    await fails({ 'output-dir': out, 'build-name': 'old' }, /old-x86_64\.versions\.txt is there already/)
    expect(await readFile(join(out, 'old-x86_64.iso'), 'utf8')).toBe('earlier')
  })

  it('when the manifest is a pipe', async () => {
    const pipe = join(bench.dir, 'pipe.yaml')
    await run('mkfifo', [pipe])
    await fails({ network: pipe }, /pipe\.yaml: it is no regular file/)
  })

  it('when output-dir is where no directory can be made', async () => {
    await fails({ 'output-dir': '/proc/cks-iso/out' }, /output-dir cannot be written to: \/proc\/cks-iso/)
  })

  it.skipIf(!isRoot)('when the disk of output-dir is full', async () => {
    const disk = join(bench.dir, 'disk')
    await mkdir(disk)
    await run('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk])
    try {
      await fails({ 'output-dir': disk }, /full|space/i)
      expect(await readdir(disk)).toEqual([])
    } finally {
      await run('umount', [disk])
    }
  })

  it('when it is cancelled in the middle of a pull', async () => {
    const cancel = new AbortController()
    upstream.registry.setFaults(({ kind }) => {
      if (kind !== 'blob') return undefined
      setTimeout(() => cancel.abort(), 20)
      return { kind: 'stall' }
    })
    const before = await readdir(bench.out)
    await expect(
      attempt(upstream, bench, { 'kubernetes-version': '1.33.13' }, keptLog(), cancel.signal),
    ).rejects.toThrow(/cancel/i)
    expect(await readdir(bench.temp)).toEqual([])
    expect(await readdir(bench.out)).toEqual(before)
    const { stdout } = await run('pgrep', ['-f', bench.temp]).catch(() => ({ stdout: '' }))
    expect(stdout).toBe('')
  })
})

describe('the bundles', () => {
  const cli = join(root, 'dist/cli.js')
  const env = () => ({ ...process.env, RUNNER_TEMP: bench.temp, RUNNER_TOOL_CACHE: join(bench.dir, 'tools') })

  it('build from the command line and print the path of the ISO alone', async () => {
    const args = [
      'build',
      '--kubernetes-version',
      '1.31',
      '--output-dir',
      'out',
      '--mirrors',
      upstream.mirrors,
    ]
    const { stdout } = await run('node', [cli, ...args], { cwd: bench.dir, env: env() })
    expect(stdout).toBe(`${join(bench.out, 'setup-v1.31.14-x86_64.iso')}\n`)
  })

  it('print a plan and stop', async () => {
    const before = await readdir(bench.out)
    const args = ['plan', '--kubernetes-version', '1.33.13', '--mirrors', upstream.mirrors]
    const { stdout } = await run('node', [cli, ...args], { cwd: bench.dir, env: env() })
    expect(stdout).toMatch(/^ {2}kubernetes: 1\.33\.13$/m)
    expect(stdout).toContain('reference: registry.k8s.io/pause:3.10')
    expect(await readdir(bench.out)).toEqual(before)
  })

  it('list the images of manifests', async () => {
    const file = join(bench.dir, 'pod.yaml')
    await writeFile(file, 'apiVersion: v1\nkind: Pod\nspec: {containers: [{image: nginx}, {image: a/b:1}]}\n')
    const { stdout } = await run('node', [cli, 'images', file])
    expect(stdout).toBe('a/b:1\nnginx\n')
  })

  it('take the arguments of the former script, and two versions from the environment', async () => {
    const calico = 'https://raw.githubusercontent.com/projectcalico/calico/v3.32.1/manifests/calico.yaml'
    const dashboard =
      'https://raw.githubusercontent.com/kubernetes/dashboard/v2.7.0/aio/deploy/recommended.yaml'
    const words = [bench.out, '1.33.13', '1.7.1', '1.33.0', calico, dashboard, 'old', 'x86_64', '3.5.21']
    const { stdout } = await run(
      'node',
      [cli, 'create-kubernetes-binaries-iso', ...words, '--mirrors', upstream.mirrors],
      { env: { ...env(), AUTOSCALER_VERSION: 'v1.33.4', CCM_VERSION: '1.2.0' } },
    )
    expect(stdout).toBe(`${join(bench.out, 'old-x86_64.iso')}\n`)
    const { versions } = parseRecord(
      await readFile(join(bench.out, 'old-x86_64.versions.txt'), 'utf8'),
      'old',
    )
    expect(versions).toMatchObject({ autoscaler: '1.33.4', etcd: '3.5.21', network: calico, dashboard })
  })

  it('check an ISO of any origin, tell what changed between two, and list what is on one', async () => {
    const other = { 'kubernetes-version': '1.33.13', 'autoscaler-version': '1.33.4', 'build-name': 'other' }
    const [one, two] = [
      await buildFrom(upstream, bench, { 'kubernetes-version': '1.33.13', 'build-name': 'one' }),
      await buildFrom(upstream, bench, other),
    ]
    const sound = await run('node', [cli, 'verify', one.isoPath], { env: env() })
    expect(sound.stdout).toBe(`${one.isoPath}: sound for CloudStack 4.22\n`)
    const { stdout } = await run('node', [cli, 'diff', '--json', one.isoPath, two.versionsPath])
    expect(JSON.parse(stdout).versions.moved).toEqual([
      { from: { name: 'autoscaler', version: '1.33.6' }, to: { name: 'autoscaler', version: '1.33.4' } },
    ])
    const sbom = await run('node', [cli, 'sbom', two.isoPath])
    expect(sbom.stdout).toContain('pkg:oci/cluster-autoscaler@sha256')

    const broken = join(bench.dir, 'broken.iso')
    const bytes = await readFile(one.isoPath)
    bytes.fill(0, bytes.indexOf('"imageLayoutVersion"'), bytes.indexOf('"imageLayoutVersion"') + 20)
    await writeFile(broken, bytes)
    const failed = await run('node', [cli, 'verify', broken], { env: env() }).catch(
      (thrown: unknown) => thrown,
    )
    expect(failed).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/would fail on a node[\s\S]*docker\//),
    })
  })

  it('exit with 1 and say what to do, or with 2 for words they do not know', async () => {
    const wrong = await run('node', [cli, 'build', '--kubernetes-version', 'x']).catch(
      (thrown: unknown) => thrown,
    )
    expect(wrong).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/kubernetes-version.*\nSet /),
      stdout: '',
    })
    const unknown = await run('node', [cli, 'build', '--nope']).catch((thrown: unknown) => thrown)
    expect(unknown).toMatchObject({ code: 2 })
  })

  it('run as the action, on Node 24, and hand out outputs that later steps can trust', async () => {
    const output = join(bench.dir, 'github-output')
    await writeFile(output, '')
    const inputs = {
      'INPUT_KUBERNETES-VERSION': 'refs/tags/v1.33.13',
      'INPUT_OUTPUT-DIR': 'action',
      INPUT_MIRRORS: upstream.mirrors,
    }
    await run('node', [join(root, 'dist/index.js')], {
      env: { ...env(), ...inputs, GITHUB_OUTPUT: output, GITHUB_WORKSPACE: bench.dir },
    })
    const text = await readFile(output, 'utf8')
    expect(text).toContain(join(bench.dir, 'action/setup-v1.33.13-x86_64.iso'))
    expect(text).toMatch(/iso-sha256<<(\S+)\n[0-9a-f]{64}\n\1\n/)
  })

  it('end when they are cancelled, with nothing left', async () => {
    upstream.registry.setFaults(({ kind }) => (kind === 'blob' ? { kind: 'stall' } : undefined))
    const before = await readdir(bench.out)
    const args = [
      cli,
      'build',
      '--kubernetes-version',
      '1.33.13',
      '--output-dir',
      bench.out,
      '--mirrors',
      upstream.mirrors,
    ]
    const child = spawn('node', args, { env: env(), stdio: ['ignore', 'ignore', 'pipe'] })
    let errors = ''
    child.stderr.on('data', (data: Buffer) => {
      errors += data.toString()
    })
    await expect
      .poll(() => upstream.registry.requests.some(({ kind }) => kind === 'blob'), { timeout: 30_000 })
      .toBe(true)
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')
    expect(errors).toContain('Cancelled')
    expect(code).toBe(130)
    expect(await readdir(bench.temp)).toEqual([])
    expect(await readdir(bench.out)).toEqual(before)
  })

  it('fetch a pinned containerd when the machine has none', async () => {
    const bin = join(bench.dir, 'bin')
    await mkdir(bin)
    for (const program of ['node', 'git', 'xorriso', 'tar', 'gzip', 'env']) {
      const { stdout } = await run('sh', ['-c', `command -v ${program}`])
      await writeFile(join(bin, program), `#!/bin/sh\nexec ${stdout.trim()} "$@"\n`)
      await chmod(join(bin, program), 0o755)
    }
    const args = [
      cli,
      'build',
      '--kubernetes-version',
      '1.33.13',
      '--build-name',
      'fetched',
      '--output-dir',
      bench.out,
    ]
    const { stderr } = await run('node', [...args, '--mirrors', upstream.mirrors], {
      env: { ...env(), PATH: bin },
    })
    expect(stderr).toContain('containerd is not on this machine')
    expect((await stat(join(bench.out, 'fetched-x86_64.iso'))).size).toBeGreaterThan(100_000)
  })
})
