import { ComponentType, ExternalReferenceType, HashAlgorithm } from '@cyclonedx/cyclonedx-library/Enums'
import { Bom, Component, ExternalReference, Metadata } from '@cyclonedx/cyclonedx-library/Models'
import { JSON as Json, JsonSerializer } from '@cyclonedx/cyclonedx-library/Serialize'
import { Spec1dot6 } from '@cyclonedx/cyclonedx-library/Spec'
import { PackageURL } from 'packageurl-js'
import { sha256Of } from '../fetch/hash.ts'
import { lastPathPart, parseReference, repositoryOf } from '../images/reference.ts'
import type { VersionName } from '../plan/plan.ts'
import { formatRecord, type IsoRecord, type RecordedFile, type RecordedImage } from './record.ts'

/** Where the version of a file is that of a project, by the start of its path. */
const VERSION_OF: readonly (readonly [string, VersionName])[] = [
  ['k8s/', 'kubernetes'],
  ['cni/', 'cni-plugins'],
  ['cri-tools/', 'crictl'],
  ['etcd/', 'etcd'],
  ['autoscaler.yaml', 'autoscaler'],
  ['provider.yaml', 'ccm'],
  ['manifest.yaml', 'csi'],
  ['snapshot-crds.yaml', 'csi'],
]

/** Folders of programs and of archives with programs. */
const PROGRAMS = /^(?:k8s|cni|cri-tools|etcd)\//

/**
 * Lists what is on an ISO as a software bill of materials, CycloneDX 1.6 in JSON: each file with version, URL and
 * SHA-256, each image with its digest as a package URL (purl). Equal records give equal bytes.
 * @param iso the ISO's file name and, where it is known, its SHA-256 in hexadecimal digits
 */
export function formatSbom(
  record: IsoRecord,
  iso: { readonly name: string; readonly sha256?: string },
): string {
  const bom = new Bom({
    serialNumber: `urn:uuid:${uuidOf(formatRecord(record))}`,
    metadata: new Metadata({
      timestamp: new Date(record.epoch * 1000),
      component: isoComponent(record, iso),
    }),
  })
  for (const file of record.files) bom.components.add(fileComponent(file, record))
  for (const image of record.images) bom.components.add(imageComponent(image, record))
  const serializer = new JsonSerializer(new Json.Normalize.Factory(Spec1dot6))
  return `${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`
}

function isoComponent(
  { versions }: IsoRecord,
  { name, sha256 }: { readonly name: string; readonly sha256?: string },
): Component {
  const component = new Component(ComponentType.File, name, { bomRef: name })
  if (versions.kubernetes !== undefined) component.version = versions.kubernetes
  if (sha256 !== undefined) component.hashes.set(HashAlgorithm['SHA-256'], sha256)
  return component
}

function fileComponent({ path, sha256, source }: RecordedFile, { versions }: IsoRecord): Component {
  const type = PROGRAMS.test(path) ? ComponentType.Application : ComponentType.File
  const component = new Component(type, path, { bomRef: path })
  const [, project] = VERSION_OF.find(([start]) => path.startsWith(start)) ?? []
  const version = project === undefined ? undefined : versions[project]
  if (version !== undefined) component.version = version
  component.hashes.set(HashAlgorithm['SHA-256'], sha256)
  if (/^https?:/.test(source)) {
    component.externalReferences.add(new ExternalReference(source, ExternalReferenceType.Distribution))
  }
  return component
}

function imageComponent(
  { reference: text, digest, path }: RecordedImage,
  { platform }: IsoRecord,
): Component {
  const reference = parseReference(text, path)
  const repository = repositoryOf(reference)
  // https://github.com/package-url/purl-spec: the type oci has the name's last part, and the digest as its version.
  const purl = new PackageURL('oci', undefined, lastPathPart(reference), digest, {
    arch: platform.split('/')[1] ?? '',
    repository_url: repository,
    ...(reference.tag === undefined ? {} : { tag: reference.tag }),
  })
  return new Component(ComponentType.Container, repository, {
    bomRef: path,
    version: reference.tag ?? digest,
    purl: purl.toString(),
  })
}

/** A UUID (RFC 9562, version 8) that follows from a text: the SBOM of an equal ISO has an equal number. */
function uuidOf(text: string): string {
  const hash = sha256Of(text)
  const [variant = '8'] = ['8', '9', 'a', 'b'].slice(Number.parseInt(hash.charAt(16), 16) % 4)
  return [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `8${hash.slice(13, 16)}`,
    `${variant}${hash.slice(17, 20)}`,
    hash.slice(20, 32),
  ].join('-')
}
