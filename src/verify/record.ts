import { type Arch, platformOf } from '../arch.ts'
import { lookupName, tryReference } from '../images/reference.ts'
import type { IsoRecord } from '../record/record.ts'
import type { Archive } from './archive.ts'
import { errorAt, type Finding } from './finding.ts'

/** Path of the record on the ISO. */
export const RECORD = 'versions.txt'

const WHY = 'nobody can tell by versions.txt what a cluster runs, nor build this ISO again'

const FIX = 'Build the ISO again; change neither it nor its versions.txt by hand.'

/**
 * Compares versions.txt with what is on the ISO: every file and archive has its line, and every line its file.
 * @param sha256 of every file outside docker/, by path
 */
export function checkRecord(
  record: IsoRecord,
  sha256: ReadonlyMap<string, string>,
  archives: readonly Archive[],
  arch: Arch,
): readonly Finding[] {
  const findings: Finding[] = []
  const differs = (what: string): void => void findings.push(errorAt(RECORD, what, WHY, FIX))

  if (record.platform !== platformOf(arch)) {
    differs(`is for ${record.platform}, and the ISO for ${platformOf(arch)}`)
  }
  for (const { path, sha256: recorded } of record.files) {
    const found = sha256.get(path)
    if (found === undefined) differs(`has a line for ${path}, which is not on the ISO`)
    else if (found !== recorded) differs(`says that ${path} has the SHA-256 ${recorded}, and it has ${found}`)
  }
  const recordedFiles = new Set(record.files.map(({ path }) => path))
  for (const path of sha256.keys()) {
    if (path !== RECORD && !recordedFiles.has(path)) differs(`has no line for ${path}`)
  }

  const byPath = new Map(archives.map((archive) => [archive.path, archive]))
  for (const { reference, digest, path } of record.images) {
    const archive = byPath.get(path)
    if (archive === undefined) {
      differs(`has a line for ${path}, which is not on the ISO`)
      continue
    }
    // An archive that cannot be read has its own findings.
    if (archive.names.length === 0) continue
    const parsed = tryReference(reference)
    const name = parsed === undefined ? reference : lookupName(parsed)
    const held = archive.names.find((each) => each.name === name)
    if (held === undefined) {
      differs(`says that ${path} is ${reference}, and it brings ${archive.names[0]?.name}`)
    } else if (held.digest !== undefined && held.digest !== digest) {
      differs(`says that ${reference} is ${digest}, and ${path} holds ${held.digest}`)
    }
  }
  const recordedArchives = new Set(record.images.map(({ path }) => path))
  for (const { path } of archives) {
    if (!recordedArchives.has(path)) differs(`has no line for ${path}`)
  }
  return findings
}
