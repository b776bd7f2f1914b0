import { Failure } from '../errors.ts'
import type { Programs } from '../exec.ts'
import type { Log } from '../log.ts'
import type { Version } from '../request/version.ts'
import { formatReference, type ImageReference, lastPathPart, tryReference } from './reference.ts'

/** What every control plane needs: a list without them is no list. */
const NEEDED = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
  'coredns',
  'pause',
  'etcd',
] as const

const NEXT =
  'Check the input kubernetes-version, and that the kubeadm of that version was downloaded whole and runs on this machine.'

/** In milliseconds. */
const TIMEOUT = 60_000

/**
 * The images that a Kubernetes release itself runs, as its kubeadm lists them.
 * @param kubeadm path of a kubeadm of that release for the machine that builds
 * @returns whole references, with registry and tag
 * @throws Failure when kubeadm fails, or lists other images than those of this release
 */
export async function kubeadmImages(
  programs: Programs,
  kubeadm: string,
  version: Version,
  log: Log,
): Promise<readonly string[]> {
  const { stdout } = await programs.run(
    kubeadm,
    ['config', 'images', 'list', '--kubernetes-version', `v${version}`],
    { what: `Cannot list the images of Kubernetes ${version}`, next: NEXT, timeout: TIMEOUT },
  )
  return readKubeadmImages(stdout, version, log)
}

/**
 * Reads the output of `kubeadm config images list`. It can hold warnings: only lines that are whole references count.
 * @throws Failure when an image of every control plane is missing, or the API server is that of another release
 */
export function readKubeadmImages(stdout: string, version: Version, log: Log): readonly string[] {
  const references: ImageReference[] = []
  for (const line of stdout.split(/\r?\n/).map((text) => text.trim())) {
    const reference = tryReference(line)
    // A single word would pass for an image of Docker Hub; kubeadm writes registry and tag.
    if (reference !== undefined && formatReference(reference) === line) references.push(reference)
    else if (line !== '') log.info(`kubeadm: ${line}`)
  }

  const missing = NEEDED.filter((name) => !references.some((reference) => lastPathPart(reference) === name))
  if (missing.length > 0) {
    throw new Failure(
      `kubeadm of Kubernetes ${version} lists no image ${missing.join(', ')}; it printed: ${JSON.stringify(stdout.slice(0, 1000))}`,
      NEXT,
    )
  }
  const server = references.find((reference) => lastPathPart(reference) === 'kube-apiserver')
  if (server?.tag !== `v${version}`) {
    throw new Failure(`kubeadm lists the API server ${server?.tag} where v${version} is built`, NEXT)
  }
  return references.map(formatReference)
}
