import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { checkIsoPaths, jolietFormOf, parentsOf } from '../../src/iso/names.ts'
import { modeOf } from '../../src/iso/tree.ts'

describe('the paths of an ISO', () => {
  it('take the names that a CKS ISO uses', () => {
    const paths = [
      'k8s/kubeadm',
      'docker/pause:3.10.1.tar',
      'docker/kube-proxy:v1.33.13.tar',
      'etcd/etcd-linux-amd64.tar.gz',
      'scripts/mein Skript é.sh',
      `docker/${'a'.repeat(103)}`,
      'a/b/c/d/e/f/g/h',
    ]
    expect(() => checkIsoPaths(paths)).not.toThrow()
  })

  it.each([
    [['/etc/passwd'], '"/etc/passwd"', 'relative'],
    [['../outside'], '"../outside"', 'relative'],
    [['a/../../b'], '"a/../../b"', 'relative'],
    [['a//b'], '"a//b"', 'relative'],
    [['a/'], '"a/"', 'relative'],
    [['./a'], '"./a"', 'relative'],
    [[''], '""', 'relative'],
    [['a\nb'], '"a\\nb"', 'control character'],
    [['a\0b'], '"a\\u0000b"', 'control character'],
    [['a/b/c/d/e/f/g/h/i'], 'a/b/c/d/e/f/g/h/i', 'deeper than 8 levels'],
    [[`x/${'a'.repeat(104)}`], 'aaaa', '103 characters'],
    [[`x/${'語'.repeat(90)}`], '語', '255 bytes'],
    [['a', 'b', 'a'], 'a cannot', 'two files have that path'],
    [['a', 'a/b'], 'a/b', 'a is a file, not a directory'],
    [['a/b', 'a'], 'a/b', 'a is a file, not a directory'],
    [['docker/x:1.tar', 'docker/x_1.tar'], 'docker/x_1.tar', 'docker/x:1.tar have one name'],
    [['a:b/c', 'a_b/d'], 'a_b', 'a:b have one name'],
  ])('%j are refused, naming the file and why', (paths, name, reason) => {
    expect(() => checkIsoPaths(paths)).toThrow(Failure)
    expect(() => checkIsoPaths(paths)).toThrow(name)
    expect(() => checkIsoPaths(paths)).toThrow(reason)
  })

  it('stand below their directories, the outermost first', () => {
    expect(parentsOf('a')).toEqual([])
    expect(parentsOf('a/b/c')).toEqual(['a', 'a/b'])
  })

  it('show what Joliet does not allow as _', () => {
    expect(jolietFormOf('a*b:c;d?e\\f.tar')).toBe('a_b_c_d_e_f.tar')
  })

  it.each([
    ['k8s/kubelet', 0o755],
    ['scripts/setup.sh', 0o755],
    ['docker/pause:3.10.1.tar', 0o644],
    ['kubelet.service', 0o644],
    ['k8s.yaml', 0o644],
  ])('%s gets the mode that a node wants there', (path, mode) => {
    expect(modeOf(path)).toBe(mode)
  })
})
