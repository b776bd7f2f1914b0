import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { getInput, info, setFailed, setOutput } from '@actions/core'
import { build } from '../build.ts'
import { Cancelled, Failure, reasonOf } from '../errors.ts'
import { runnerLog } from '../github/log.ts'
import { parseEpoch } from '../request/epoch.ts'
import { parseRequest } from '../request/request.ts'
import { BUILD_SETTINGS, type OutputName } from '../request/settings.ts'
import { cancelSignal } from '../signals.ts'
import { sizeOf } from '../words.ts'

/** The main action: inputs in, an ISO and its record out. */
async function run(): Promise<void> {
  const cancel = cancelSignal()
  const { env } = process
  const request = parseRequest(Object.fromEntries(BUILD_SETTINGS.map(({ name }) => [name, getInput(name)])), {
    cwd: env.GITHUB_WORKSPACE ?? process.cwd(),
    ...(env.GITHUB_REF_TYPE === 'tag' && env.GITHUB_REF !== undefined ? { tag: env.GITHUB_REF } : {}),
  })
  const result = await build(request, {
    log: runnerLog(),
    cancel,
    tempDir: resolve(env.RUNNER_TEMP || tmpdir()),
    ...parseEpoch(env.SOURCE_DATE_EPOCH),
  })
  info(`${result.isoPath}: ${sizeOf(result.isoSize)}, sha256 ${result.isoSha256}`)
  const { versions } = result.plan
  const outputs: Readonly<Record<OutputName, unknown>> = {
    'iso-path': result.isoPath,
    'iso-name': `${result.plan.name}.iso`,
    'iso-size': result.isoSize,
    'iso-sha256': result.isoSha256,
    'versions-path': result.versionsPath,
    'kubernetes-version': versions.kubernetes,
    'autoscaler-version': versions.autoscaler,
    'ccm-version': versions.ccm,
    'csi-version': versions.csi,
    'cni-version': versions['cni-plugins'],
    'crictl-version': versions.crictl,
    'etcd-version': versions.etcd ?? '',
    network: versions.network,
    dashboard: versions.dashboard,
    images: result.images.map(({ reference, digest, fileName, size }) => ({
      reference,
      digest,
      file: `docker/${fileName}`,
      size,
    })),
  }
  for (const [name, value] of Object.entries(outputs)) setOutput(name, value)
}

try {
  await run()
} catch (thrown) {
  const isExpected = thrown instanceof Failure || thrown instanceof Cancelled
  setFailed(isExpected ? thrown.message : `Unexpected: ${reasonOf(thrown)}`)
}
// Connections that are kept alive must not keep the job waiting.
process.exit()
