import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Failure } from '../../src/errors.ts'
import { Programs } from '../../src/exec.ts'
import { findIsoWriter } from '../../src/iso/writer.ts'
import { keptLog } from '../log.ts'
import { temporaryDirectories } from './iso-rig.ts'

const temporary = temporaryDirectories()
const programs = new Programs(new AbortController().signal)

let bin = ''
const path = process.env.PATH

beforeEach(async () => {
  // A machine with nothing on its PATH but what a test puts there.
  bin = join(await temporary(), 'bin')
  await mkdir(bin)
  process.env.PATH = bin
})

afterEach(() => {
  process.env.PATH = path
})

/** A program that notes how it was called, does what it is told and ends with the code it is told. */
async function stub(name: string, script = 'exit 0'): Promise<void> {
  await writeFile(join(bin, name), `#!/bin/sh\necho "${name} $*" >> ${bin}/calls\n${script}\n`)
  await chmod(join(bin, name), 0o755)
}

async function calls(): Promise<readonly string[]> {
  return (await readFile(join(bin, 'calls'), 'utf8')).trim().split('\n')
}

const RUN_REST = 'while [ "$1" = -n ]; do shift; done\nexec "$@"'
const VERSION = "echo 'xorriso 1.5.4 : RockRidge filesystem manipulator'"

/** What a package manager does: puts a program on the PATH. */
function installing(program: string): string {
  return `case "$*" in *install*)
printf '#!/bin/sh\\n${VERSION.replaceAll("'", '"')}\\n' > ${bin}/${program}; /bin/chmod 755 ${bin}/${program};;
esac`
}

describe('a machine without an ISO writer', () => {
  it('gets xorriso by apt-get when the build runs as root', async () => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub('apt-get', `[ "$DEBIAN_FRONTEND" = noninteractive ] || exit 9\n${installing('xorriso')}`)
    const log = keptLog()
    const writer = await findIsoWriter(programs, log, true)
    expect(writer).toMatchObject({ kind: 'xorriso', version: 'xorriso 1.5.4' })
    expect(await calls()).toEqual([
      'apt-get -o DPkg::Lock::Timeout=120 update',
      'apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends xorriso',
    ])
    expect(log.notices.join()).toContain('installing the package xorriso with apt-get')
  })

  it('gets it by sudo when that asks for no password', async () => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub('true')
    await stub('sudo', RUN_REST)
    await stub('apt-get', installing('xorriso'))
    await findIsoWriter(programs, keptLog(), false)
    expect(await calls()).toEqual([
      'sudo -n true',
      'true ',
      'sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 update',
      'apt-get -o DPkg::Lock::Timeout=120 update',
      'sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends xorriso',
      'apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends xorriso',
    ])
  })

  it.each([
    ['dnf', 'dnf install --assumeyes xorriso'],
    ['yum', 'yum install --assumeyes xorriso'],
    ['zypper', 'zypper --non-interactive install xorriso'],
  ])('gets it by %s where that is the package manager', async (manager, call) => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub(manager, installing('xorriso'))
    await findIsoWriter(programs, keptLog(), true)
    expect(await calls()).toEqual([call])
  })

  it('gets it although one list of packages cannot be refreshed', async () => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub('apt-get', `case "$*" in *update*) exit 100;; esac\n${installing('xorriso')}`)
    expect((await findIsoWriter(programs, keptLog(), true)).program).toBe('xorriso')
  })

  it('is told the package when the installation fails, with the reason', async () => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub('apt-get', 'echo "E: Unable to locate package" >&2; exit 100')
    const found = findIsoWriter(programs, keptLog(), true)
    await expect(found).rejects.toThrow(Failure)
    await expect(found).rejects.toThrow(/xorriso cannot be installed: .* 100: E: Unable to locate package/)
    await expect(found).rejects.toThrow('Install the package xorriso')
  })

  it('is told the package when neither root nor sudo can install it', async () => {
    await stub('apt-get')
    const withoutSudo = findIsoWriter(programs, keptLog(), false)
    await expect(withoutSudo).rejects.toThrow(
      /only root or sudo without a password.*\nInstall the package xorriso/,
    )
    await stub('sudo', 'exit 1')
    const withPassword = findIsoWriter(programs, keptLog(), false)
    await expect(withPassword).rejects.toThrow(/only root or sudo without a password/)
    expect(await calls()).toEqual(['sudo -n true'])
  })

  it('is told the package when it has no package manager that is known', async () => {
    await expect(findIsoWriter(programs, keptLog(), true)).rejects.toThrow(
      /neither is one of apt-get, dnf, yum, zypper .*\nInstall the package xorriso/,
    )
  })

  it('hears when the installed package brought no program', async () => {
    await symlink('/usr/bin/env', join(bin, 'env'))
    await stub('dnf')
    await expect(findIsoWriter(programs, keptLog(), true)).rejects.toThrow('although the package xorriso was')
  })
})

describe('a machine with ISO writers', () => {
  it('uses xorriso before genisoimage', async () => {
    await stub('genisoimage', 'echo "genisoimage 1.1.11 (Linux)"')
    await stub('mkisofs', 'echo "genisoimage 1.1.11 (Linux)"')
    await stub('xorriso', VERSION)
    expect(await findIsoWriter(programs, keptLog(), false)).toMatchObject({
      program: 'xorriso',
      kind: 'xorriso',
      isReproducible: true,
    })
  })

  it('uses genisoimage, and says that its ISOs differ on each run', async () => {
    await stub('genisoimage', 'echo "genisoimage 1.1.11 (Linux)"')
    const log = keptLog()
    expect((await findIsoWriter(programs, log, false)).kind).toBe('genisoimage')
    expect(log.notices.join()).toMatch(/genisoimage 1\.1\.11, which differs on each run: install xorriso/)
  })

  it('uses a mkisofs that is really xorriso', async () => {
    await stub('mkisofs', `echo 'mkisofs 2.01-Emulation see libburnia-project.org xorriso'; ${VERSION} >&2`)
    expect(await findIsoWriter(programs, keptLog(), false)).toMatchObject({
      program: 'mkisofs',
      version: 'xorriso 1.5.4',
    })
  })

  it('passes over a program that only has the name', async () => {
    await stub('xorriso', 'exit 127')
    await stub('genisoimage', 'echo "genisoimage 1.1.11 (Linux)"')
    expect((await findIsoWriter(programs, keptLog(), false)).program).toBe('genisoimage')
  })
})
