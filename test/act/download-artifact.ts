import { matchesGlob, resolve } from 'node:path'
import { DefaultArtifactClient } from '@actions/artifact'
import { getBooleanInput, getInput } from '@actions/core'

/** Stands in for actions/download-artifact, on the same client: artifacts by pattern, into one folder. */

if (!getBooleanInput('merge-multiple')) throw new Error('this download-artifact merges only')
const client = new DefaultArtifactClient()
const { artifacts } = await client.listArtifacts({ latest: true })
for (const { id, name, digest } of artifacts) {
  if (!matchesGlob(name, getInput('pattern'))) continue
  const { digestMismatch } = await client.downloadArtifact(id, {
    path: resolve(getInput('path')),
    ...(digest === undefined ? {} : { expectedHash: digest }),
  })
  if (digestMismatch) throw new Error(`${name} is not what was uploaded`)
}
