/**
 * Pulls one image and prints what came of it: a process of its own, so that a test can run it as another user.
 * Arguments: containerd, ctr, directory for the archive, mirrors, reference.
 */
import { startContainerd } from '../src/images/containerd.ts'
import { planImages } from '../src/images/plan.ts'
import { pullImages } from '../src/images/pull.ts'
import { parseMirrors, registryMirrors } from '../src/request/mirrors.ts'
import { withWorkspace } from '../src/workspace.ts'
import { runGroup } from './log.ts'

const [containerd = '', ctr = '', out = '', mirrorLines = '', reference = ''] = process.argv.slice(2)
const log = { info: () => {}, notice: () => {}, warning: () => {}, debug: () => {}, group: runGroup }

const pulled = await withWorkspace(out, new AbortController().signal, async ({ dir, programs, signal }) => {
  const mirrors = registryMirrors(parseMirrors(mirrorLines))
  const binaries = { containerd, ctr }
  const daemon = await startContainerd({ dir: `${dir}/containerd`, programs, binaries, mirrors, log })
  const planned = planImages([{ reference, source: 'a test' }])
  return await pullImages(planned, { containerd: daemon, log, signal, arch: 'amd64', dir: out })
})
process.stdout.write(JSON.stringify({ user: process.getuid?.(), pulled }))
