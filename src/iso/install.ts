import { which } from '@actions/io'
import { Failure, reasonOf } from '../errors.ts'
import type { Programs } from '../exec.ts'
import type { Log } from '../log.ts'

const TIMEOUT = 10 * 60_000

interface PackageManager {
  readonly program: string
  /** Brings its lists up to date; a failure (one foreign source of many) need not matter. */
  readonly refresh: readonly string[] | undefined
  /** Installs the packages that are named after these arguments. */
  readonly install: readonly string[]
}

/** A runner's own background updates may hold dpkg's lock for a while. */
const APT_WAIT = ['-o', 'DPkg::Lock::Timeout=120']

const MANAGERS: readonly PackageManager[] = [
  {
    program: 'apt-get',
    refresh: [...APT_WAIT, 'update'],
    install: [...APT_WAIT, 'install', '--yes', '--no-install-recommends'],
  },
  { program: 'dnf', refresh: undefined, install: ['install', '--assumeyes'] },
  { program: 'yum', refresh: undefined, install: ['install', '--assumeyes'] },
  { program: 'zypper', refresh: undefined, install: ['--non-interactive', 'install'] },
]

/**
 * Installs a package with the machine's package manager, as root or with sudo that asks for no password.
 * @param need for what, as the start of an error message: `No program that writes ISOs is here`
 * @throws Failure that names the package, when it cannot be installed from here
 */
export async function installPackage(
  name: string,
  need: string,
  { programs, log, isRoot }: { readonly programs: Programs; readonly log: Log; readonly isRoot: boolean },
): Promise<void> {
  const next = `Install the package ${name} (for example: sudo apt-get install ${name}), then run this again.`
  const manager = await findManager()
  if (manager === undefined) {
    const known = MANAGERS.map(({ program }) => program).join(', ')
    throw new Failure(`${need}, and neither is one of ${known} to install ${name} with`, next)
  }
  if (!isRoot && !(await hasSudo(programs, next))) {
    throw new Failure(`${need}, and only root or sudo without a password may install ${name}`, next)
  }
  const run = async (args: readonly string[]): Promise<void> => {
    // sudo drops the environment; apt's configuration scripts must not ask questions.
    const command = ['env', 'DEBIAN_FRONTEND=noninteractive', manager.program, ...args]
    const [program = '', ...rest] = isRoot ? command : ['sudo', '-n', ...command]
    await programs.run(program, rest, {
      what: `${need}, and ${name} cannot be installed`,
      next,
      timeout: TIMEOUT,
    })
  }
  log.notice(`${need}: installing the package ${name} with ${manager.program}`)
  if (manager.refresh !== undefined) {
    await run(manager.refresh).catch((thrown: unknown) => {
      if (!(thrown instanceof Failure)) throw thrown
      log.debug(reasonOf(thrown))
    })
  }
  await run([...manager.install, name])
}

async function findManager(): Promise<PackageManager | undefined> {
  for (const manager of MANAGERS) {
    if ((await which(manager.program, false)) !== '') return manager
  }
  return undefined
}

async function hasSudo(programs: Programs, next: string): Promise<boolean> {
  if ((await which('sudo', false)) === '') return false
  const { exitCode } = await programs.tryRun('sudo', ['-n', 'true'], {
    what: 'Cannot ask sudo',
    next,
    timeout: 30_000,
  })
  return exitCode === 0
}
