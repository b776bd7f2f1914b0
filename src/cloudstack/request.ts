import { resolve } from 'node:path'
import { parse } from 'semver'
import { type Arch, parseArch } from '../arch.ts'
import { Failure, throwProblems } from '../errors.ts'
import { parseSwitch } from '../request/switch.ts'
import type { ClusterChoice } from './plan.ts'
import type { Registration } from './register.ts'
import {
  type CloudStackSettingName,
  type CloudStackValues,
  cloudStackSettings,
  type Part,
} from './settings.ts'
import type { ApiKeys } from './sign.ts'

/** What is upgraded, and how. */
export interface UpgradeRequest {
  readonly choice: ClusterChoice
  readonly parallel: number
  readonly redeploy:
    | { readonly kind: 'scale' }
    | { readonly kind: 'none' }
    /** `source` is the ISO, or a file or URL of its autoscaler.yaml. */
    | { readonly kind: 'kubeconfig'; readonly source: string }
  /** In milliseconds. */
  readonly upgradeTimeout: number
  /** In milliseconds. */
  readonly redeployTimeout: number
}

/** What the user asked for: parsed and checked, nothing looked up yet. */
export interface CloudStackRequest {
  readonly endpoint: string
  readonly keys: ApiKeys
  /** Absolute. */
  readonly caFile: string | undefined
  /** Names or ids. */
  readonly zones: readonly string[]
  readonly semver: string
  readonly versionName: string | undefined
  readonly register: Registration | undefined
  readonly upgrade: UpgradeRequest | undefined
  readonly dryRun: boolean
}

/**
 * Reads what the user set. Every bad value is reported at once.
 * @param values as written; blank means the default
 * @param front `action`: registers when there is an iso-url, upgrades when there are clusters; else the command
 * @throws Failure naming each setting that cannot be used; no value of a secret is in it
 */
export function parseCloudStackRequest(
  values: CloudStackValues,
  front: 'action' | Part,
  context: { readonly cwd: string },
): CloudStackRequest {
  const problems: Failure[] = []
  const text = (name: CloudStackSettingName): string => {
    const written = values[name]?.trim() ?? ''
    return written || (cloudStackSettings().find((setting) => setting.name === name)?.default ?? '')
  }
  const read = <T>(name: CloudStackSettingName, parser: (text: string, name: string) => T): T | undefined => {
    try {
      return parser(text(name), name)
    } catch (thrown) {
      if (!(thrown instanceof Failure)) throw thrown
      problems.push(thrown)
      return undefined
    }
  }
  const registers = front === 'register' || (front === 'action' && text('iso-url') !== '')
  const upgrades = front === 'upgrade' || (front === 'action' && text('clusters') !== '')
  if (!registers && !upgrades) {
    problems.push(
      new Failure(
        'nothing to do: iso-url and clusters are both empty',
        'Set iso-url (with iso-checksum) to register an ISO, clusters to upgrade clusters, or both.',
      ),
    )
  }
  if (front === 'action' && !registers && text('iso-checksum') !== '') {
    problems.push(new Failure('iso-url: empty, but there is an iso-checksum', 'Set iso-url too, or neither.'))
  }
  const common = {
    endpoint: read('endpoint', parseEndpoint),
    apiKey: read('api-key', required),
    secretKey: read('secret-key', required),
    caFile: text('ca-file') === '' ? undefined : resolve(context.cwd, text('ca-file')),
    zones: parseList(text('zones')),
    semver: read('kubernetes-version', parseRelease),
    versionName: text('version-name') || undefined,
    dryRun: read('dry-run', parseSwitch),
  }
  const registering = registers && {
    url: read('iso-url', parseIsoUrl),
    sha256: read('iso-checksum', parseChecksum),
    arch: read<Arch>('arch', parseArch),
    minCpu: read('min-cpu', parseCount),
    minMemory: read('min-memory', parseCount),
    directDownload: read('direct-download', parseSwitch),
    timeout: read('register-timeout', parseMinutes),
  }
  const upgrading = upgrades && {
    choice: read('clusters', parseChoice),
    parallel: read('parallel', parseCount),
    redeploy: read('redeploy', (method) => parseRedeploy(method, text('autoscaler-manifest'))),
    upgradeTimeout: read('upgrade-timeout', parseMinutes),
    redeployTimeout: read('redeploy-timeout', parseMinutes),
  }
  throwProblems('inputs cannot be used', problems)
  const { apiKey, secretKey, ...rest } = whole(common, ['caFile', 'versionName'])
  return {
    ...rest,
    keys: { apiKey, secretKey },
    register: registering
      ? { ...whole(registering, []), semver: rest.semver, name: rest.versionName }
      : undefined,
    upgrade: upgrading ? whole(upgrading, []) : undefined,
  }
}

type Whole<T, K extends keyof T> = { readonly [P in keyof T]: P extends K ? T[P] : Exclude<T[P], undefined> }

/** The fields, none of them absent but those named: what could not be read was reported before. */
function whole<T extends object, K extends keyof T>(fields: T, optional: readonly K[]): Whole<T, K> {
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined && !optional.some((each) => each === name)) {
      throw new Error(`${name} was read as absent and not reported`)
    }
  }
  return fields as Whole<T, K>
}

function required(text: string, name: string): string {
  if (text !== '') return text
  const variable = cloudStackSettings().find((setting) => setting.name === name)?.variable
  const also = variable === undefined ? '' : ` (on the command line ${variable} does it too)`
  throw new Failure(`${name}: empty`, `Set ${name}${also}.`)
}

function parseEndpoint(text: string, name: string): string {
  if (!isHttp(required(text, name)) || /[?#@]/.test(text)) {
    throw new Failure(
      `${name}: ${JSON.stringify(text.replace(/\/\/.*@/, '//***@'))} is no URL of an API`,
      'Set endpoint to the URL of the CloudStack API without user and query, such as https://cloud.example/client/api.',
    )
  }
  return text
}

/** CloudStack takes digits only (AddKubernetesSupportedVersionCmd.getSemanticVersion). */
function parseRelease(text: string, name: string): string {
  const version = required(text, name)
    .replace(/^refs\/tags\//, '')
    .replace(/^v/i, '')
  const parsed = parse(version)
  if (parsed?.version === version && parsed.prerelease.length === 0) return version
  throw new Failure(
    `${name}: ${JSON.stringify(text)} is no Kubernetes release that CloudStack takes`,
    'Set kubernetes-version to MAJOR.MINOR.PATCH, such as 1.33.13.',
  )
}

function parseIsoUrl(text: string, name: string): string {
  if (isHttp(required(text, name))) return text
  throw new Failure(
    `${name}: ${JSON.stringify(text)} is no http or https URL`,
    'Set iso-url to where CloudStack can download the ISO.',
  )
}

function parseChecksum(text: string, name: string): string {
  const digits = /^(?:\{SHA-256\})?([0-9a-f]{64})$/i.exec(required(text, name))?.[1]
  if (digits !== undefined) return digits.toLowerCase()
  throw new Failure(
    `${name}: ${JSON.stringify(text)} is no SHA-256`,
    'Set iso-checksum to the 64 hexadecimal digits that sha256sum prints for the ISO.',
  )
}

function parseChoice(text: string, name: string): ClusterChoice {
  const names = parseList(required(text, name))
  return names.length === 1 && names[0] === 'all' ? { kind: 'all' } : { kind: 'named', names }
}

function parseRedeploy(text: string, source: string): UpgradeRequest['redeploy'] {
  if (text === 'scale' || text === 'none') return { kind: text }
  if (text !== 'kubeconfig') {
    throw new Failure(
      `redeploy: ${JSON.stringify(text)} is no way to redeploy an autoscaler`,
      'Set redeploy to scale, kubeconfig or none.',
    )
  }
  if (source !== '') return { kind: 'kubeconfig', source }
  throw new Failure(
    'redeploy: kubeconfig needs a manifest to apply, and autoscaler-manifest is empty',
    'Set autoscaler-manifest to the ISO, or to its autoscaler.yaml, a file or a URL.',
  )
}

function parseList(text: string): readonly string[] {
  return text
    .split(/[\n,]/)
    .map((each) => each.trim())
    .filter((each) => each !== '')
}

function parseCount(text: string, name: string): number {
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  throw new Failure(
    `${name}: ${JSON.stringify(text)} is no count`,
    `Set ${name} to a whole number from 1 on.`,
  )
}

/** @returns milliseconds */
function parseMinutes(text: string, name: string): number {
  return parseCount(text, name) * 60_000
}

function isHttp(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}
