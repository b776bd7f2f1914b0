import { dirname, resolve } from 'node:path'
import { DefaultArtifactClient } from '@actions/artifact'
import { getInput } from '@actions/core'

/** Stands in for actions/upload-artifact, on the same client: one file. */

const path = resolve(getInput('path', { required: true }))
await new DefaultArtifactClient().uploadArtifact(getInput('name', { required: true }), [path], dirname(path))
