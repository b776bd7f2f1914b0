import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileFailure } from '../errors.ts'
import type { RegistryMirror } from '../request/mirrors.ts'

/**
 * Writes the tree of hosts.toml files that leads containerd to the mirrors (`ctr --hosts-dir`). A mirrored registry
 * is never asked itself, whatever its mirror answers. Registries without a mirror need no file.
 * @param dir made when missing
 */
export async function writeHosts(dir: string, mirrors: readonly RegistryMirror[]): Promise<void> {
  try {
    await mkdir(dir, { recursive: true })
    for (const mirror of mirrors) {
      const hostDir = join(dir, mirror.host)
      await mkdir(hostDir)
      await writeFile(join(hostDir, 'hosts.toml'), hostsFile(mirror))
    }
  } catch (thrown) {
    throw fileFailure('Cannot write where registries are mirrored', dir, thrown)
  }
}

/**
 * The mirror takes the place of the server itself: listed as a host before it, the registry would be asked next.
 * The empty table is for containerd 1.6, which without one cannot read the file and then silently ignores it.
 */
function hostsFile({ base, overridePath }: RegistryMirror): string {
  return [
    `server = ${JSON.stringify(base)}`,
    'capabilities = ["pull", "resolve"]',
    `override_path = ${overridePath}`,
    '[host]',
    '',
  ].join('\n')
}
