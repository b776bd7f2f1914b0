import type { WantedImage } from '../images/plan.ts'
import { type ImageReference, lastPathPart, lookupName, tryReference } from '../images/reference.ts'
import { sizeOf } from '../words.ts'
import type { Archive } from './archive.ts'
import { errorAt, type Finding, noticeAt, THE_ISO } from './finding.ts'

/** What kubeadm pulls for a control plane, whatever the registry: the last parts of the names. */
const CONTROL_PLANE: readonly string[] = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
  'coredns',
  'pause',
  'etcd',
]

const WHY_MISSING = 'a node without internet cannot get it, and the pod waits for its image for ever'

const ADD_IMAGE = 'Add it to extra-images, or choose a version of its source whose images are on the ISO.'

/**
 * Asks for every image as kubelet does, and finds archives that nobody asks for.
 * @param wanted what manifests, kubeadm and versions.txt name
 * @param imported the names that images have after the import
 * @param knowsKubeadm whether kubeadm's own images are among `wanted`; else they are known by their names
 */
export function checkReferences(
  archives: readonly Archive[],
  wanted: readonly WantedImage[],
  imported: ReadonlySet<string>,
  knowsKubeadm: boolean,
): readonly Finding[] {
  // An archive that cannot be imported has its own finding already.
  const there = new Set([...imported, ...archives.flatMap(({ names }) => names.map(({ name }) => name))])
  const controlPlane = knowsKubeadm ? [] : checkControlPlane(there)
  return [
    ...checkWanted(wanted, there),
    ...controlPlane,
    ...checkPause(archives),
    ...unreferenced(archives, wanted, knowsKubeadm),
  ]
}

function checkWanted(wanted: readonly WantedImage[], there: ReadonlySet<string>): readonly Finding[] {
  return wanted.flatMap(({ reference: written, source }) => {
    const reference = tryReference(written)
    if (reference === undefined) {
      const what = `names ${JSON.stringify(written)}, which is no image reference`
      return [errorAt(source, what, 'kubelet refuses it', 'Correct it there.')]
    }
    const name = lookupName(reference)
    if (there.has(name)) return []
    const near = spelledOtherwise(reference, there)
    const what = `names ${written}, and no archive brings ${name}${near === undefined ? '' : ` (one brings ${near})`}`
    return [errorAt(source, what, WHY_MISSING, ADD_IMAGE)]
  })
}

/** A name of the same repository, to show what is there instead. */
function spelledOtherwise({ domain, path }: ImageReference, there: ReadonlySet<string>): string | undefined {
  return [...there].find((name) => {
    const other = tryReference(name)
    return other?.domain === domain && other.path === path
  })
}

function checkControlPlane(there: ReadonlySet<string>): readonly Finding[] {
  const parts = new Set([...there].map((name) => partOf(name)))
  return CONTROL_PLANE.filter((part) => part !== 'pause' && !parts.has(part)).map((part) =>
    errorAt(
      THE_ISO,
      `has no image ${part}`,
      'kubeadm needs it for the control plane, and a node without internet cannot get it',
      'Add the images that `kubeadm config images list` names.',
    ),
  )
}

/** Nodes take the last line of `ctr images ls -q | grep pause | sort` for their sandbox image. */
function checkPause(archives: readonly Archive[]): readonly Finding[] {
  const found = archives.flatMap(({ path, names }) =>
    names.filter(({ name }) => name.includes('pause')).map(({ name }) => ({ name, path })),
  )
  const [first, second] = found
  if (first !== undefined && second === undefined) return []
  const why =
    'nodes take the last of all image names with "pause" in them, in the order of a text sort, for their sandbox'
  if (first === undefined) {
    return [errorAt(THE_ISO, 'has no pause image', why, 'Add the pause image that kubeadm names.')]
  }
  const all = found.map(({ name, path }) => `${name} (${path})`).join(' and ')
  const what = `has ${found.length} image names with "pause" in them: ${all}`
  return [errorAt(THE_ISO, what, why, 'Leave only the pause image that kubeadm names.')]
}

function unreferenced(
  archives: readonly Archive[],
  wanted: readonly WantedImage[],
  knowsKubeadm: boolean,
): readonly Finding[] {
  const names = new Set(
    wanted.flatMap(({ reference, source }) => {
      const parsed = source === 'versions.txt' ? undefined : tryReference(reference)
      return parsed === undefined ? [] : [lookupName(parsed)]
    }),
  )
  const isAskedFor = ({ name }: { readonly name: string }): boolean =>
    names.has(name) || (!knowsKubeadm && CONTROL_PLANE.includes(partOf(name)))
  return archives
    .filter((archive) => archive.names.length > 0 && !archive.names.some(isAskedFor))
    .map(({ path, size }) =>
      noticeAt(
        path,
        `is named by no manifest and not by kubeadm, and takes ${sizeOf(size)}`,
        'nodes import it and may never use it',
        'Leave it out, unless you added it on purpose.',
      ),
    )
}

function partOf(name: string): string {
  const reference = tryReference(name)
  return reference === undefined ? '' : lastPathPart(reference)
}
