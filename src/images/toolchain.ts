import { join } from 'node:path'
import { cacheDir, extractTar, find } from '@actions/tool-cache'
import { hostArch } from '../arch.ts'
import { DEFAULTS } from '../defaults.ts'
import { findOnPath } from '../exec.ts'
import { requireContent } from '../fetch/content.ts'
import type { Downloads } from '../fetch/download.ts'
import type { Log } from '../log.ts'
import { containerd as containerdUrls } from '../plan/urls.ts'
import type { ContainerdBinaries } from './containerd.ts'

/**
 * The containerd and ctr of this machine, or a pinned release: out of the tool cache, else downloaded, its published
 * checksum verified.
 * @param dir a directory for the download
 * @throws Failure when neither is to be had
 */
export async function provideContainerd(context: {
  readonly downloads: Downloads
  readonly dir: string
  readonly log: Log
}): Promise<ContainerdBinaries> {
  const [containerd, ctr] = await Promise.all([findOnPath('containerd'), findOnPath('ctr')])
  if (containerd !== undefined && ctr !== undefined) return { containerd, ctr }

  const arch = hostArch()
  const version = DEFAULTS.containerd
  const cached = find('containerd', version, arch)
  if (cached !== '') return binariesIn(cached)

  context.log.info(`containerd is not on this machine: fetching ${version}`)
  const input = 'mirrors'
  const archive = await context.downloads.file(
    { what: 'containerd', input, candidates: containerdUrls(version, arch) },
    join(context.dir, 'containerd.tar.gz'),
  )
  await requireContent(archive, { kind: 'gzip' }, input)
  const extracted = await extractTar(archive.path, join(context.dir, 'containerd-release'))
  return binariesIn(await cacheDir(extracted, 'containerd', version, arch))
}

function binariesIn(dir: string): ContainerdBinaries {
  return { containerd: join(dir, 'bin', 'containerd'), ctr: join(dir, 'bin', 'ctr') }
}
