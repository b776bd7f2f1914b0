import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { readKubeadmImages } from '../../src/images/kubeadm.ts'
import { runGroup } from '../log.ts'

const IMAGES = [
  'registry.k8s.io/kube-apiserver:v1.33.13',
  'registry.k8s.io/kube-controller-manager:v1.33.13',
  'registry.k8s.io/kube-scheduler:v1.33.13',
  'registry.k8s.io/kube-proxy:v1.33.13',
  'registry.k8s.io/coredns/coredns:v1.12.0',
  'registry.k8s.io/pause:3.10',
  'registry.k8s.io/etcd:3.5.24-0',
]

function read(lines: readonly string[], version = '1.33.13') {
  const messages: string[] = []
  const note = (message: string): void => void messages.push(message)
  const log = { info: note, notice: note, warning: note, debug: note, group: runGroup }
  return { images: readKubeadmImages(`${lines.join('\n')}\n`, version, log), messages }
}

describe("kubeadm's list of images", () => {
  it('is taken line by line', () => {
    expect(read(IMAGES).images).toEqual(IMAGES)
    expect(read(IMAGES.map((line) => `${line}\r`)).images).toEqual(IMAGES)
  })

  it('may hold warnings and blank lines, which go to the log', () => {
    const warnings = [
      'W0110 15:02:41.000001 1 version.go:101] could not fetch a Kubernetes version from the internet',
      'warning',
      'host:8080',
    ]
    const { images, messages } = read([...warnings, ...IMAGES, '', ''])
    expect(images).toEqual(IMAGES)
    expect(messages).toEqual(warnings.map((line) => `kubeadm: ${line}`))
  })

  it.each(IMAGES)('without %s is no list', (missing) => {
    const name = missing.replace(/:.*$/, '').replace(/^.*\//, '')
    const reading = () => read(IMAGES.filter((line) => line !== missing))
    expect(reading).toThrow(Failure)
    expect(reading).toThrow(`lists no image ${name}; it printed:`)
  })

  it('that is empty is no list', () => {
    expect(() => read([])).toThrow('lists no image kube-apiserver, kube-controller-manager')
  })

  it('of another release is refused', () => {
    expect(() => read(IMAGES, '1.33.9')).toThrow('lists the API server v1.33.13 where v1.33.9 is built')
  })
})
