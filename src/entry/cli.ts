#!/usr/bin/env node
import { readFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { stringify } from 'yaml'
import packageJson from '../../package.json' with { type: 'json' }
import { type BuildEnvironment, build, describePlan, verify } from '../build.ts'
import { addCloudStackCommands } from '../cloudstack/cli.ts'
import { DEFAULTS } from '../defaults.ts'
import { Cancelled, Failure, fileFailure, reasonOf } from '../errors.ts'
import { openIso } from '../iso/reader.ts'
import type { Log } from '../log.ts'
import { imagesOf } from '../manifests/images.ts'
import { parseManifest } from '../manifests/parse.ts'
import { diffRecords, formatDiff } from '../record/diff.ts'
import { type IsoRecord, parseRecord } from '../record/record.ts'
import { formatSbom } from '../record/sbom.ts'
import { parseEpoch } from '../request/epoch.ts'
import { parseCloudStack, parseRequest } from '../request/request.ts'
import { BUILD_SETTINGS, type SettingValues } from '../request/settings.ts'
import { cancelSignal } from '../signals.ts'
import { text } from '../verify/files.ts'
import { formatFindings } from '../verify/finding.ts'
import { sizeOf } from '../words.ts'

/** How a cancelled program ends: 128 and the number of SIGINT. */
const CANCELLED = 130

const { env } = process

/**
 * Standard output is for results. The libraries of the Actions toolkit speak to a runner there; on a command line that
 * is for people, and goes where the log goes.
 */
const print = process.stdout.write.bind(process.stdout)
process.stdout.write = process.stderr.write.bind(process.stderr)

/** Results go to standard output, everything about them to standard error. */
const log: Log = {
  info: (message) => console.error(message),
  notice: (message) => console.error(`notice: ${message}`),
  warning: (message) => console.error(`warning: ${message}`),
  debug: (message) => {
    if (env.CKS_ISO_DEBUG !== undefined) console.error(message)
  },
}

function environment(cancel: AbortSignal): BuildEnvironment {
  // @actions/tool-cache keeps tools of machines that stay in these two, which only a runner sets.
  env.RUNNER_TOOL_CACHE ||= join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cks-iso')
  env.RUNNER_TEMP = resolve(env.RUNNER_TEMP || tmpdir())
  return { log, cancel, tempDir: env.RUNNER_TEMP, ...parseEpoch(env.SOURCE_DATE_EPOCH) }
}

async function runBuild(values: SettingValues, cancel: AbortSignal): Promise<void> {
  const request = parseRequest(values, { cwd: process.cwd() })
  const result = await build(request, environment(cancel))
  log.info(`${sizeOf(result.isoSize)}, ${result.images.length} images, sha256 ${result.isoSha256}`)
  const times = result.stages.map(({ name, start, end }) => `${name} ${((end - start) / 1000).toFixed(1)} s`)
  log.info(`${times.join(', ')} (they overlap)`)
  log.info(`versions: ${result.versionsPath}`)
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

/** The record of an ISO, or of a versions.txt beside one. */
async function recordOf(path: string): Promise<IsoRecord> {
  if (!path.endsWith('.iso')) {
    const record = await readFile(path, 'utf8').catch((thrown: unknown) => {
      throw fileFailure('Cannot read the record', path, thrown)
    })
    return parseRecord(record, path)
  }
  const iso = await openIso(path)
  try {
    return parseRecord(await text(iso, 'versions.txt'), `versions.txt of ${path}`)
  } finally {
    await iso.close()
  }
}

function commandLine(cancel: AbortSignal): Command {
  const program = new Command('cks-iso')
    .description('Builds the binaries ISO from which CloudStack Kubernetes Service nodes install Kubernetes.')
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .version(packageJson.version)
    .exitOverride()
  settingOptions(program.command('build').description('build an ISO; prints its path')).action(
    async (options: Record<string, string>) => await runBuild(valuesOf(options), cancel),
  )
  settingOptions(program.command('plan').description('print what would be built, as YAML, and stop')).action(
    async (options: Record<string, string>) => {
      const request = parseRequest(valuesOf(options), { cwd: process.cwd() })
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
    .option('--cloudstack-version <value>', `as for build (default: ${DEFAULTS.cloudstack})`)
    .action(async (iso: string, options: { cloudstackVersion?: string }) => {
      const cloudstack = parseCloudStack(options.cloudstackVersion ?? DEFAULTS.cloudstack)
      const findings = await verify(iso, cloudstack, environment(cancel))
      if (findings.length > 0) log.info(formatFindings(findings))
      print(`${iso}: sound for CloudStack ${cloudstack}\n`)
    })
  program
    .command('sbom <file>')
    .description('print the bill of materials of an ISO, or of a versions.txt, as CycloneDX JSON')
    .action(async (file: string) => {
      print(formatSbom(await recordOf(file), { name: basename(file).replace(/\.versions\.txt$/, '.iso') }))
    })
  program
    .command('diff <a> <b>')
    .description('print what changed between two ISOs or versions.txt files')
    .option('--json', 'as JSON')
    .action(async (a: string, b: string, options: { json?: boolean }) => {
      const diff = diffRecords(await recordOf(a), await recordOf(b))
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
