import { chmod, lstat, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { buildTree, listTree } from '../../src/iso/tree.ts'
import { temporaryDirectories, writeFiles } from './iso-rig.ts'

const temporary = temporaryDirectories()

describe('the tree of an ISO', () => {
  it('holds every file at its path, without copying what has the right mode', async () => {
    const dir = await temporary()
    await writeFiles(dir, { kubeadm: 'binary', 'pause.tar': 'image' })
    await chmod(join(dir, 'kubeadm'), 0o755)
    await chmod(join(dir, 'pause.tar'), 0o644)
    const tree = join(dir, 'tree')
    await buildTree(tree, [
      { path: 'k8s/kubeadm', source: join(dir, 'kubeadm') },
      { path: 'docker/pause:3.10.1.tar', source: join(dir, 'pause.tar') },
    ])
    expect(await listTree(tree)).toEqual([
      { path: 'docker', size: 0, isDirectory: true },
      { path: 'docker/pause:3.10.1.tar', size: 5, isDirectory: false },
      { path: 'k8s', size: 0, isDirectory: true },
      { path: 'k8s/kubeadm', size: 6, isDirectory: false },
    ])
    expect((await stat(join(tree, 'k8s/kubeadm'))).ino).toBe((await stat(join(dir, 'kubeadm'))).ino)
  })

  it('gives each file the mode of its place and leaves the source as it is, whatever the umask', async () => {
    const dir = await temporary()
    await writeFiles(dir, { kubeadm: 'binary', secret: 'manifest' })
    await chmod(join(dir, 'kubeadm'), 0o644)
    await chmod(join(dir, 'secret'), 0o600)
    const tree = join(dir, 'tree')
    const umask = process.umask(0o077)
    try {
      await buildTree(tree, [
        { path: 'k8s/kubeadm', source: join(dir, 'kubeadm') },
        { path: 'network.yaml', source: join(dir, 'secret') },
      ])
    } finally {
      process.umask(umask)
    }
    const modeOfFile = async (path: string): Promise<number> => (await stat(path)).mode & 0o7777
    expect(await modeOfFile(join(tree, 'k8s/kubeadm'))).toBe(0o755)
    expect(await modeOfFile(join(tree, 'network.yaml'))).toBe(0o644)
    expect(await modeOfFile(tree)).toBe(0o755)
    expect(await modeOfFile(join(tree, 'k8s'))).toBe(0o755)
    expect(await modeOfFile(join(dir, 'kubeadm'))).toBe(0o644)
    expect(await modeOfFile(join(dir, 'secret'))).toBe(0o600)
  })

  it('makes one file of one source under two paths, also when it had to be copied', async () => {
    const dir = await temporary()
    await writeFiles(dir, { etcd: 'archive' })
    await chmod(join(dir, 'etcd'), 0o600)
    const tree = join(dir, 'tree')
    await buildTree(tree, [
      { path: 'etcd/etcd-linux-amd64.tar.gz', source: join(dir, 'etcd') },
      { path: 'etcd/etcd-linux-arm64.tar.gz', source: join(dir, 'etcd') },
    ])
    const [amd64, arm64] = await Promise.all([
      stat(join(tree, 'etcd/etcd-linux-amd64.tar.gz')),
      stat(join(tree, 'etcd/etcd-linux-arm64.tar.gz')),
    ])
    expect(amd64.ino).toBe(arm64.ino)
  })

  it('holds the file behind a symbolic link, not the link', async () => {
    const dir = await temporary()
    await writeFiles(dir, { real: 'content' })
    await symlink('real', join(dir, 'link'))
    await buildTree(join(dir, 'tree'), [{ path: 'a.yaml', source: join(dir, 'link') }])
    expect((await lstat(join(dir, 'tree/a.yaml'))).isFile()).toBe(true)
    expect(await readFile(join(dir, 'tree/a.yaml'), 'utf8')).toBe('content')
  })

  it('is refused when a source is missing or a directory, naming both names', async () => {
    const dir = await temporary()
    const missing = buildTree(join(dir, 'one'), [{ path: 'a.yaml', source: join(dir, 'nowhere') }])
    await expect(missing).rejects.toThrow(Failure)
    await expect(missing).rejects.toThrow(`Cannot put a.yaml on the ISO: ${join(dir, 'nowhere')}: ENOENT`)
    await mkdir(join(dir, 'directory'))
    const directory = buildTree(join(dir, 'two'), [{ path: 'a.yaml', source: join(dir, 'directory') }])
    await expect(directory).rejects.toThrow(`${join(dir, 'directory')} is no file`)
  })

  it('is refused where something stands already', async () => {
    const dir = await temporary()
    await writeFile(join(dir, 'tree'), '')
    await expect(buildTree(join(dir, 'tree'), [])).rejects.toThrow(
      `Cannot make a directory of the ISO: ${join(dir, 'tree')}: EEXIST`,
    )
  })

  it('is refused before anything is made when a path cannot stand on an ISO', async () => {
    const dir = await temporary()
    const built = buildTree(join(dir, 'tree'), [{ path: '../x', source: join(dir, 'x') }])
    await expect(built).rejects.toThrow('"../x" cannot be put on the ISO')
    await expect(stat(join(dir, 'tree'))).rejects.toThrow('ENOENT')
  })

  it('cannot be listed when it is not there', async () => {
    const dir = await temporary()
    await expect(listTree(join(dir, 'tree'))).rejects.toThrow(Failure)
  })
})
