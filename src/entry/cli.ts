#!/usr/bin/env node
import { readFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { stringify } from 'yaml'
import packageJson from '../../package.json' with { type: 'json' }
import { type BuildEnvironment, type BuildResult, build, describePlan, verify } from '../build.ts'
import { addCloudStackCommands } from '../cloudstack/cli.ts'
import { DEFAULTS } from '../defaults.ts'
import { Cancelled, Failure, fileFailure, reasonOf } from '../errors.ts'
import type { TextContext } from '../iso/text.ts'
import type { Log } from '../log.ts'
import { machineCache } from '../machine-cache.ts'
import { imagesOf } from '../manifests/images.ts'
import { parseManifest } from '../manifests/parse.ts'
import { diffRecords, formatDiff } from '../record/diff.ts'
import { readRecord } from '../record/read.ts'
import { formatSbom } from '../record/sbom.ts'
import { parseEpoch } from '../request/epoch.ts'
import { readRequest } from '../request/read.ts'
import { parseCloudStack } from '../request/request.ts'
import { BUILD_SETTINGS, type SettingValues } from '../request/settings.ts'
import { cancelSignal } from '../signals.ts'
import { formatFindings } from '../verify/finding.ts'
import { sizeOf } from '../words.ts'

/** How a cancelled program ends: 128 and the number of SIGINT. */
const CANCELLED = 130

const { env } = process

/**
 * Standard output is for results. The libraries of the Actions toolkit speak to a runner there; on a command line that
 * is for people, and goes where the log goes; what only a runner in debug mode shows goes nowhere.
 */
const print = process.stdout.write.bind(process.stdout)
const isDebug = env.CKS_ISO_DEBUG !== undefined
const tell = process.stderr.write.bind(process.stderr)
process.stdout.write = (chunk: string | Uint8Array): boolean =>
  !isDebug && typeof chunk === 'string' && chunk.startsWith('::debug::') ? true : tell(chunk)

/** Results go to standard output, everything about them to standard error. */
const log: Log = {
  info: (message) => console.error(message),
  notice: (message) => console.error(`notice: ${message}`),
  warning: (message) => console.error(`warning: ${message}`),
  debug: (message) => {
    if (isDebug) console.error(message)
  },
  group: async (name, body) => {
    console.error(`${name} …`)
    return await body()
  },
}

function environment(cancel: AbortSignal): BuildEnvironment {
  // @actions/tool-cache keeps tools of machines that stay in these two, which only a runner sets.
  env.RUNNER_TOOL_CACHE ||= join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cks-iso')
  env.RUNNER_TEMP = resolve(env.RUNNER_TEMP || tmpdir())
  return { log, cancel, tempDir: env.RUNNER_TEMP, ...parseEpoch(env.SOURCE_DATE_EPOCH) }
}

/** What reading a text that the user points at takes. */
function reading(signal: AbortSignal): Omit<TextContext, 'mirrors'> {
  return { cwd: process.cwd(), tempDir: tmpdir(), log, signal }
}

/** @param keeps whether downloads and archives are kept for the next build */
async function runBuild(values: SettingValues, keeps: boolean, cancel: AbortSignal): Promise<void> {
  const request = await readRequest(values, reading(cancel))
  const around = environment(cancel)
  const cache = keeps ? machineCache(around.tempDir, log) : undefined
  let result: BuildResult
  try {
    result = await build(request, { ...around, ...(cache === undefined ? {} : { cache }) })
  } finally {
    await cache?.close(cancel)
  }
  log.info(`${sizeOf(result.isoSize)}, ${result.images.length} images, sha256 ${result.isoSha256}`)
  const times = result.stages.map(({ name, start, end }) => `${name} ${((end - start) / 1000).toFixed(1)} s`)
  log.info(`${times.join(', ')} (they overlap)`)
  log.info(`versions: ${result.versionsPath}`)
  log.info(`bill of materials: ${result.sbomPath}`)
  print(`${result.isoPath}\n`)
}

function settingOptions(command: Command): Command {
  for (const { name, description, default: fallback } of BUILD_SETTINGS) {
    command.option(
      `--${name} <value>`,
      fallback === '' ? description : `${description} (default: ${fallback})`,
    )
  }
  return command
}

/** commander names options in camel case; settings keep the names that they have as inputs. */
function valuesOf(options: Readonly<Record<string, string>>): SettingValues {
  const camel = (name: string): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  return Object.fromEntries(BUILD_SETTINGS.map(({ name }) => [name, options[camel(name)] ?? '']))
}

async function printImages(files: readonly string[]): Promise<void> {
  const found = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(file, 'utf8').catch((thrown: unknown) => {
        throw fileFailure('Cannot read the manifest', file, thrown)
      })
      return imagesOf(parseManifest(text, file))
    }),
  )
  for (const image of new Set(found.flat())) print(`${image}\n`)
}

function commandLine(cancel: AbortSignal): Command {
  const program = new Command('cks-iso')
    .description('Builds the binaries ISO from which CloudStack Kubernetes Service nodes install Kubernetes.')
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .version(packageJson.version)
    .exitOverride()
  settingOptions(program.command('build').description('build an ISO; prints its path'))
    .option('--no-cache', 'fetch everything anew, and keep nothing for the next build')
    .action(
      async ({ cache, ...options }: { cache: boolean } & Record<string, string>) =>
        await runBuild(valuesOf(options), cache, cancel),
    )
  settingOptions(program.command('plan').description('print what would be built, as YAML, and stop')).action(
    async (options: Record<string, string>) => {
      const request = await readRequest(valuesOf(options), reading(cancel))
      const plan = await describePlan(request, environment(cancel))
      print(stringify(plan, { aliasDuplicateObjects: false }))
    },
  )
  program
    .command('images <files...>')
    .description('print the image references of manifests, one a line, as written')
    .action(printImages)
  program
    .command('verify <iso>')
    .description('check an ISO of any origin as nodes will use it')
    .option(
      '--cloudstack-version <value>',
      `as for build (default: what its versions.txt says, else ${DEFAULTS.cloudstack})`,
    )
    .action(async (iso: string, options: { cloudstackVersion?: string }) => {
      const { cloudstackVersion: wanted } = options
      const asked = wanted === undefined ? undefined : parseCloudStack(wanted)
      const { findings, cloudstack } = await verify(iso, asked, environment(cancel))
      if (findings.length > 0) log.info(formatFindings(findings))
      print(`${iso}: sound for CloudStack ${cloudstack}\n`)
    })
  program
    .command('sbom <file>')
    .description('print the bill of materials of an ISO, or of a versions.txt, as CycloneDX JSON')
    .action(async (file: string) => {
      const record = await readRecord(file, 'file', { ...reading(cancel), mirrors: [] })
      print(formatSbom(record, { name: basename(file).replace(/\.versions\.txt$/, '.iso') }))
    })
  program
    .command('diff <a> <b>')
    .description('print what changed between two ISOs or versions.txt files')
    .option('--json', 'as JSON')
    .action(async (a: string, b: string, options: { json?: boolean }) => {
      const context = { ...reading(cancel), mirrors: [] }
      const diff = diffRecords(await readRecord(a, 'a', context), await readRecord(b, 'b', context))
      print(options.json === true ? `${JSON.stringify(diff)}\n` : formatDiff(diff))
    })
  positionalCommand(program, cancel)
  addCloudStackCommands(program, {
    log,
    signal: cancel,
    cwd: process.cwd(),
    tempDir: tmpdir(),
    env,
    print: (text) => void print(`${text}\n`),
  })
  return program
}

/** The command line of the shell script that CloudStack had for this, argument for argument. */
function positionalCommand(program: Command, cancel: AbortSignal): void {
  program
    .command(POSITIONAL)
    .description(
      'build as the former shell script did; AUTOSCALER_VERSION and CCM_VERSION are read from the environment',
    )
    .argument('<OUTPUT_PATH>')
    .argument('<KUBERNETES_VERSION>')
    .argument('<CNI_VERSION>')
    .argument('<CRICTL_VERSION>')
    .argument('<NETWORK_YAML>')
    .argument('<DASHBOARD_YAML>')
    .argument('<BUILD_NAME>')
    .argument('[ARCH]')
    .argument('[ETCD_VERSION]')
    .option('--mirrors <value>', 'as for build')
    .action(async (...words: readonly unknown[]) => {
      const self = words.at(-1)
      const [output, kubernetes, cni, crictl, network, dashboard, name, arch, etcd] = words.map((word) =>
        typeof word === 'string' ? word : '',
      )
      const values = {
        'output-dir': output,
        'kubernetes-version': kubernetes,
        'cni-version': cni,
        'crictl-version': crictl,
        network,
        dashboard,
        'build-name': name,
        arch,
        'etcd-version': etcd,
        'autoscaler-version': env.AUTOSCALER_VERSION,
        'ccm-version': env.CCM_VERSION,
        mirrors: self instanceof Command ? self.opts<{ mirrors?: string }>().mirrors : undefined,
      }
      await runBuild(
        Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value ?? ''])),
        true,
        cancel,
      )
    })
}

const POSITIONAL = 'create-kubernetes-binaries-iso'

async function main(): Promise<number> {
  const cancel = cancelSignal()
  const [node = '', script = '', ...words] = process.argv
  const isPositional = basename(script).startsWith(POSITIONAL)
  try {
    await commandLine(cancel).parseAsync([node, script, ...(isPositional ? [POSITIONAL] : []), ...words])
    return 0
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : 2
    if (thrown instanceof Cancelled) {
      log.info(thrown.message)
      return CANCELLED
    }
    console.error(`error: ${thrown instanceof Failure ? thrown.message : `unexpected: ${reasonOf(thrown)}`}`)
    return 1
  }
}

// Connections that are kept alive must not keep the shell waiting.
process.exit(await main())
