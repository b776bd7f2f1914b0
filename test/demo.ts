import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { cancelSignal } from '../src/signals.ts'
import { startUpstream } from './upstream/upstream.ts'

/**
 * Builds an ISO from the embedded upstream: no internet, small stand-ins instead of the real programs and images, and
 * the same bundle, containerd, git and ISO writer as a real build.
 */

const root = resolve(import.meta.dirname, '..')
const out = join(root, 'out')

const cancel = cancelSignal()
console.log('Starting the embedded upstream: the internet of a build, on loopback …\n')
const upstream = await startUpstream()
let code: unknown
try {
  const args = [
    'build',
    '--no-cache',
    '--kubernetes-version',
    '1.33',
    '--etcd-version',
    '3.5.21',
    '--output-dir',
    out,
  ]
  const build = spawn('node', [join(root, 'dist/cli.js'), ...args, '--mirrors', upstream.mirrors], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  cancel.addEventListener('abort', () => build.kill('SIGINT'))
  let path = ''
  build.stdout.on('data', (data: Buffer) => {
    path += data.toString()
  })
  ;[code] = await once(build, 'close')
  if (code === 0) await report(path.trim())
} finally {
  await upstream.close()
}
process.exit(code === 0 ? 0 : 1)

async function report(iso: string): Promise<void> {
  const versions = iso.replace(/\.iso$/, '.versions.txt')
  const lines = (await readFile(versions, 'utf8')).split('\n').filter((line) => line.startsWith('version '))
  const size = (await readFile(iso)).length
  console.log(`
The ISO is at    ${relative(process.cwd(), iso)} (${(size / 1_000_000).toFixed(1)} MB)
                 of small stand-ins: to look at, not to register; a real one has 500 MB and more
What is on it    ${relative(process.cwd(), versions)}
${lines.map((line) => `                 ${line}`).join('\n')}

Next
  List it:        xorriso -indev ${relative(process.cwd(), iso)} -find / -type f
  A real one:     node ${relative(process.cwd(), join(root, 'dist/cli.js'))} build --kubernetes-version 1.33 --output-dir out   (needs the internet)
  In a workflow:  see the top of README.md; register the result in CloudStack: docs/upgrade.md
`)
}
