import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Arch, parseArch } from '../arch.ts'
import { DEFAULTS } from '../defaults.ts'
import { Failure, throwProblems } from '../errors.ts'
import { formatReference, parseReference } from '../images/reference.ts'
import { type Lock, lockedSettings } from './lock.ts'
import { type Mirror, parseMirrors, requirePlainSource } from './mirrors.ts'
import { BUILD_SETTINGS, type BuildSettingName, type SettingValues } from './settings.ts'
import { parseSwitch } from './switch.ts'
import { type KubernetesRequest, parseKubernetesVersion, parseVersion, type Version } from './version.ts'

/** Add-ons that are known by name. */
export type AddOn = 'calico' | 'flannel' | 'kubernetes-dashboard' | 'headlamp'

/** Where a manifest that the user chooses comes from. */
export type ManifestRequest =
  | { readonly kind: 'add-on'; readonly name: AddOn; readonly version: Version }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'none' }

/** What the user asked for: parsed and checked, nothing looked up yet. Absent versions are found out later. */
export interface BuildRequest {
  readonly kubernetes: KubernetesRequest
  readonly cni?: Version
  readonly crictl?: Version
  readonly network: ManifestRequest
  readonly dashboard: ManifestRequest
  readonly autoscaler?: Version
  readonly ccm: Version
  readonly csi: Version
  readonly etcd?: Version
  readonly arch: Arch
  /** Normalised references. */
  readonly extraImages: readonly string[]
  readonly buildName?: string
  /** Absolute. */
  readonly outputDir: string
  /** MAJOR.MINOR of the CloudStack release. */
  readonly cloudstack: string
  readonly mirrors: readonly Mirror[]
  /** Whether the finished ISO is looked at as a node will. */
  readonly verify: boolean
  /** The build to repeat. */
  readonly lock?: Lock
}

const ADD_ON_VERSIONS: Readonly<Record<AddOn, Version>> = {
  calico: DEFAULTS.calico,
  flannel: DEFAULTS.flannel,
  'kubernetes-dashboard': DEFAULTS.kubernetesDashboard,
  headlamp: DEFAULTS.headlamp,
}

/** The first release whose cluster creation applies headlamp.yaml. */
const FIRST_WITH_HEADLAMP = 23

/** Rock Ridge and shells both take it, and the suffix `-aarch64.versions.txt` still fits a file name. */
const BUILD_NAME = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$/

/**
 * Reads what the user set. Every bad value is reported at once.
 * @param values as written; blank means the default
 * @param context `tag`: the tag that a workflow runs for, which an empty kubernetes-version stands for;
 *   `cwd`: what relative paths are relative to; `lock`: the build to repeat, which stands for what is left empty
 * @throws Failure naming each input that cannot be used
 */
export function parseRequest(
  values: SettingValues,
  context: { readonly cwd: string; readonly tag?: string; readonly lock?: Lock },
): BuildRequest {
  const { cwd, tag = '', lock } = context
  const instead = lock === undefined ? { 'kubernetes-version': tag } : lockedSettings(lock)
  const textOf = (name: BuildSettingName): string => values[name]?.trim() || instead[name] || defaultOf(name)
  const problems: Failure[] = []
  const read = <T>(name: BuildSettingName, parse: (text: string) => T): T | undefined => {
    const text = textOf(name)
    try {
      return text === '' ? undefined : parse(text)
    } catch (thrown) {
      if (!(thrown instanceof Failure)) throw thrown
      problems.push(thrown)
      return undefined
    }
  }
  const version = (name: BuildSettingName): Version | undefined =>
    read(name, (text) => parseVersion(name, text))

  const kubernetes = read('kubernetes-version', parseKubernetesVersion)
  if (textOf('kubernetes-version') === '') problems.push(noKubernetesVersion())
  const cloudstack = read('cloudstack-version', parseCloudStack) ?? DEFAULTS.cloudstack
  const request = {
    network: read('network', (text) => parseManifest('network', text, ['calico', 'flannel'], cwd)),
    dashboard:
      read('dashboard', (text) =>
        text === 'none'
          ? { kind: 'none' as const }
          : parseManifest('dashboard', text, ['kubernetes-dashboard', 'headlamp'], cwd),
      ) ?? addOn(appliesHeadlamp(cloudstack) ? 'headlamp' : 'kubernetes-dashboard'),
    arch: read('arch', parseArch),
    ccm: version('ccm-version'),
    csi: version('csi-version'),
    extraImages: read('extra-images', parseExtraImages) ?? [],
    outputDir: read('output-dir', (text) => parseOutputDir(text, cwd)),
    cloudstack,
    mirrors: read('mirrors', parseMirrors) ?? [],
    verify: read('verify', (text) => parseSwitch(text, 'verify')) ?? true,
    ...optional('lock', lock),
    ...optional('cni', version('cni-version')),
    ...optional('crictl', version('crictl-version')),
    ...optional('autoscaler', version('autoscaler-version')),
    ...optional('etcd', version('etcd-version')),
    ...optional('buildName', read('build-name', parseBuildName)),
  }
  const { network, arch, ccm, csi, outputDir } = request
  throwProblems('inputs cannot be used', problems)
  if (!kubernetes || !network || !arch || !ccm || !csi || !outputDir) {
    throw new Error('a setting without a default was read as absent')
  }
  return { ...request, kubernetes, network, arch, ccm, csi, outputDir }
}

/** Whether cluster creation of a CloudStack release (MAJOR.MINOR) applies headlamp.yaml. */
export function appliesHeadlamp(cloudstack: string): boolean {
  const [major = 0, minor = 0] = cloudstack.split('.').map(Number)
  return major > 4 || (major === 4 && minor >= FIRST_WITH_HEADLAMP)
}

function defaultOf(wanted: BuildSettingName): string {
  return BUILD_SETTINGS.find(({ name }) => name === wanted)?.default ?? ''
}

function noKubernetesVersion(): Failure {
  return new Failure(
    'kubernetes-version: empty, and this run is not for a tag',
    'Set kubernetes-version to a release such as 1.33.13, or to a minor such as 1.33 for its newest patch.',
  )
}

function addOn(name: AddOn, version: Version = ADD_ON_VERSIONS[name]): ManifestRequest {
  return { kind: 'add-on', name, version }
}

function parseManifest(
  input: 'network' | 'dashboard',
  text: string,
  names: readonly AddOn[],
  cwd: string,
): ManifestRequest {
  requirePlainSource(text, { input, what: 'manifest', kinds: 'URL, file or add-on' })
  const at = text.indexOf('@')
  const name = names.find((candidate) => candidate === (at < 0 ? text : text.slice(0, at)))
  if (name !== undefined) {
    return at < 0 ? addOn(name) : addOn(name, parseVersion(input, text.slice(at + 1)))
  }
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return { kind: 'url', url: text }
  if (/^file:\/\//i.test(text) && URL.canParse(text)) return { kind: 'file', path: fileURLToPath(text) }
  // An unknown scheme is no file.
  if (!text.includes('://') && (isAbsolute(text) || /[./]/.test(text))) {
    return { kind: 'file', path: resolve(cwd, text) }
  }
  throw new Failure(
    `${input}: ${JSON.stringify(text)} is neither an add-on, a URL nor a file`,
    `Set ${input} to one of ${names.map((known) => `${known}[@version]`).join(', ')}, to an http or https URL, or to the path of a file (./${input}.yaml).`,
  )
}

/** Reads the input cloudstack-version. @returns MAJOR.MINOR @throws Failure */
export function parseCloudStack(text: string): string {
  const match = /^v?(\d+\.\d+)(\.\d+)*$/i.exec(text)
  if (match?.[1] === undefined) {
    throw new Failure(
      `cloudstack-version: ${JSON.stringify(text)} is no CloudStack release`,
      'Set cloudstack-version to a release such as 4.22 or 4.22.1.',
    )
  }
  return match[1]
}

function parseOutputDir(text: string, cwd: string): string {
  if (/\p{Cc}/u.test(text)) {
    throw new Failure(
      `output-dir: ${JSON.stringify(text)} holds a line end or control character`,
      'Set output-dir to the path of one directory.',
    )
  }
  return resolve(cwd, text)
}

function parseBuildName(text: string): string {
  if (!BUILD_NAME.test(text)) {
    throw new Failure(
      `build-name: ${JSON.stringify(text)} cannot be the start of a file name`,
      'Use letters, digits, dot, underscore, plus and dash, at most 200 of them.',
    )
  }
  return text
}

function parseExtraImages(text: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/(^|\s)#.*$/, '').trim())
  return lines
    .filter((line) => line !== '')
    .map((line) => formatReference(parseReference(line, 'extra-images')))
}

function optional<K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> {
  return value === undefined ? {} : ({ [key]: value } as Record<K, V>)
}
