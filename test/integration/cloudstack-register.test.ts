import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { register as registerVersion } from '../../src/cloudstack/register.ts'
import { parseCloudStackRequest } from '../../src/cloudstack/request.ts'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import { Cancelled } from '../../src/errors.ts'
import { clientOf, Lines, type RunOptions, runAgainst } from '../cloudstack/rig.ts'
import { CloudStackStandIn } from '../cloudstack/stand-in.ts'

const URL = 'https://isos.example/setup-v1.33.13-x86_64.iso'
const SHA = '1f'.repeat(32)
const OTHER = '2e'.repeat(32)
const VALUES: CloudStackValues = { 'kubernetes-version': '1.33.13', 'iso-url': URL, 'iso-checksum': SHA }

let cloud: CloudStackStandIn
let endpoint: string
let log: Lines

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
  log = new Lines()
})
afterEach(() => cloud.stop())

const register = (more: CloudStackValues = {}, options: RunOptions = {}) =>
  runAgainst(cloud, endpoint, { ...VALUES, ...more }, { log, ...options })

const commands = () => cloud.changes.map(({ command }) => command)

describe('registering an ISO', () => {
  it('adds a version with everything that CloudStack asks for, and waits until the ISO is there', async () => {
    const report = await register({ zones: 'zone-1', 'min-cpu': '4', 'min-memory': '4096' })
    expect(report.failure).toBeUndefined()
    const [added] = cloud.changes
    expect(added).toMatchObject({
      command: 'addKubernetesSupportedVersion',
      parameters: {
        name: 'v1.33.13-x86_64',
        semanticversion: '1.33.13',
        url: URL,
        checksum: `{SHA-256}${SHA}`,
        arch: 'x86_64',
        mincpunumber: '4',
        minmemory: '4096',
        zoneid: cloud.zones[0].id,
      },
    })
    expect(added?.parameters).not.toHaveProperty('directdownload')
    expect(cloud.versions[0]?.iso.state).toBe('Ready')
    expect(report.registered).toEqual([
      { zone: cloud.zones[0], name: 'v1.33.13-x86_64', id: cloud.versions[0]?.id, outcome: 'registered' },
    ])
    expect(log.text).toMatch(/zone-1: 50% Downloaded \(secondary 50%\)/)
    expect(report.summary).toContain(`| zone-1 | v1.33.13-x86_64 | ${cloud.versions[0]?.id} | registered |`)
  })

  it('does so in each zone that is asked for, by name or id', async () => {
    await register({ zones: `zone-1\n${cloud.zones[1].id}`, arch: 'arm64', 'direct-download': 'true' })
    expect(cloud.versions.map(({ zoneid }) => zoneid)).toEqual(cloud.zones.map(({ id }) => id))
    expect(cloud.changes[0]?.parameters).toMatchObject({ arch: 'aarch64', directdownload: 'true' })
  })

  it('does so once for all zones when none is named, and waits for every zone', async () => {
    const report = await register()
    expect(cloud.changes).toHaveLength(1)
    expect(cloud.changes[0]?.parameters).not.toHaveProperty('zoneid')
    expect(report.registered[0]?.zone).toBeUndefined()
    expect(log.text).toMatch(/zone-1: 50% .*zone-2: 100%|zone-1: 50%.*zone-2: 50%/)
  })

  it('in a zone that does not exist fails before anything is changed', async () => {
    const report = await register({ zones: 'zone-1, nowhere' })
    expect(report.failure?.message).toMatch(/zones: CloudStack has no zone "nowhere"\n.*zone-1, zone-2/)
    expect(cloud.changes).toEqual([])
  })

  it('from a signed URL shows no part of the signature', async () => {
    const url = 'https://me:pass@isos.example/a.iso?X-Signature=5ecret'
    cloud.downloadErrors.set(url, 'Forbidden')
    const { failure, summary } = await register({ 'iso-url': url })
    expect(cloud.changes[0]?.parameters.url).toBe(url)
    expect(failure?.message).toContain('could not download https://isos.example/a.iso?…: Forbidden')
    expect(`${failure?.message} ${summary} ${log.text}`).not.toMatch(/5ecret|pass@/)
  })

  it('in a dry run changes nothing', async () => {
    const report = await register({ zones: 'zone-1', 'dry-run': 'true' })
    expect(cloud.changes).toEqual([])
    expect(report.registered).toMatchObject([{ outcome: 'would register', id: undefined }])
  })
})

describe('registering again', () => {
  it('leaves a version with the same checksum alone', async () => {
    await register({ zones: 'zone-1' })
    const report = await register({ zones: 'zone-1' })
    expect(report.failure).toBeUndefined()
    expect(report.registered).toMatchObject([{ outcome: 'already there', id: cloud.versions[0]?.id }])
    expect(commands()).toEqual(['addKubernetesSupportedVersion'])
  })

  it('waits for a download that an earlier run began', async () => {
    cloud.addVersion('1.33.13', {
      iso: {
        id: 'i',
        url: URL,
        checksum: SHA,
        state: 'Creating',
        percent: 50,
        error: undefined,
        autoscaler: 'x',
      },
    })
    expect((await register()).registered).toMatchObject([{ outcome: 'already there' }])
    expect(cloud.versions[0]?.iso.state).toBe('Ready')
  })

  it('takes a version that is there for all zones for the one of a zone', async () => {
    await register()
    expect((await register({ zones: 'zone-2' })).registered).toMatchObject([{ outcome: 'already there' }])
    expect(cloud.versions).toHaveLength(1)
  })

  it('with another checksum is an error, and no zone is touched', async () => {
    await register({ zones: 'zone-1' })
    const report = await register({ zones: 'zone-2, zone-1', 'iso-checksum': OTHER })
    expect(report.failure?.message).toMatch(
      new RegExp(`registered in zone zone-1 already as v1.33.13-x86_64 .*${SHA}.*another ISO than ${OTHER}`),
    )
    expect(report.failure?.message).toMatch(/\n.*version-name/)
    expect(cloud.versions).toHaveLength(1)
  })

  it('with another checksum and a name of its own stands beside it', async () => {
    await register()
    const report = await register({ 'iso-checksum': OTHER, 'version-name': 'v1.33.13-nightly-2' })
    expect(report.registered).toMatchObject([{ outcome: 'registered', name: 'v1.33.13-nightly-2' }])
    const again = await register({ 'iso-checksum': SHA, 'version-name': 'v1.33.13-nightly-2' })
    expect(again.registered, 'the ISO itself is there, under its first name').toMatchObject([
      { outcome: 'already there', name: 'v1.33.13-x86_64' },
    ])
    const clash = await register({ 'iso-checksum': '3d'.repeat(32), 'version-name': 'v1.33.13-nightly-2' })
    expect(clash.failure?.message).toContain('another ISO')
  })

  it('where the checksum that is there is no SHA-256 is an error', async () => {
    cloud.addVersion('1.33.13')
    expect((await register()).failure?.message).toContain(
      'the checksum (none), which is no SHA-256 to compare with',
    )
  })

  it('for another architecture is no clash', async () => {
    await register()
    await register({ arch: 'arm64', 'iso-checksum': OTHER })
    expect(cloud.versions.map(({ name }) => name)).toEqual(['v1.33.13-x86_64', 'v1.33.13-aarch64'])
  })

  it('says that a version is disabled', async () => {
    await register()
    Object.assign(cloud.versions[0] ?? {}, { state: 'Disabled' })
    await register()
    expect(log.warnings.join()).toContain('is disabled in CloudStack')
  })
})

describe('a registration that fails', () => {
  it("gives CloudStack's own reason and is cleaned up", async () => {
    const reason = `checksum "{SHA-256}aa" didn't match the given value, "{SHA-256}${SHA}"`
    cloud.downloadErrors.set(URL, reason)
    const report = await register()
    expect(report.failure?.message).toContain(`CloudStack could not download ${URL}: ${reason}`)
    expect(commands()).toEqual(['addKubernetesSupportedVersion', 'deleteKubernetesSupportedVersion'])
    expect(cloud.versions).toEqual([])
    expect(report.summary).toContain('### Needs your attention')
  })

  it('and cannot be cleaned up says what is left', async () => {
    cloud.downloadErrors.set(URL, 'Connection refused')
    cloud.fault('deleteKubernetesSupportedVersion', {
      kind: 'job fails',
      code: 530,
      text: 'secondary storage is away',
    })
    const { failure } = await register()
    expect(failure?.message).toContain('Connection refused')
    expect(cloud.versions).toHaveLength(1)
    expect(log.warnings.join()).toMatch(
      /v1.33.13-x86_64 .* is still in CloudStack: .*secondary storage is away. Remove it there./,
    )
  })

  it('leaves what an earlier run registered for a human', async () => {
    cloud.addVersion('1.33.13', {
      iso: { id: 'i', url: URL, checksum: SHA, state: 'Failed', percent: 0, error: 'gone', autoscaler: 'x' },
    })
    const { failure } = await register()
    expect(failure?.message).toMatch(/could not download .*: gone\n.*to be removed/)
    expect(commands()).toEqual([])
  })

  it('in one zone does not take back another zone', async () => {
    cloud.fault('addKubernetesSupportedVersion', { kind: 'error', code: 530, text: 'no secondary storage' })
    const report = await register({ zones: 'zone-1, zone-2' })
    expect(report.failure?.message).toContain('no secondary storage')
    expect(cloud.versions.map(({ zoneid }) => zoneid)).toEqual([cloud.zones[1].id])
    expect((await register({ zones: 'zone-1, zone-2' })).registered.map(({ outcome }) => outcome)).toEqual([
      'registered',
      'already there',
    ])
  })

  it('in all zones names each', async () => {
    cloud.downloadErrors.set(URL, 'Not Found')
    const { failure } = await register({ zones: 'zone-1, zone-2' })
    expect(failure?.message).toMatch(/2 of 2 zones failed[\s\S]*zone-1[\s\S]*zone-2/)
    expect(cloud.versions).toEqual([])
  })

  it('by refusal gives the words of CloudStack', async () => {
    const { failure } = await register({ 'min-cpu': '1' })
    expect(failure?.message).toMatch(/answered 431: Invalid value for mincpunumber parameter/)
  })

  it('by a wrong secret key shows no key', async () => {
    const { failure, summary } = await register({ 'secret-key': 'wrong-secret' })
    expect(failure?.message).toContain('401')
    expect(`${failure?.message} ${summary} ${log.text}`).not.toMatch(/wrong-secret/)
  })

  it('by taking too long leaves the download to CloudStack', async () => {
    cloud.downloadStep = 0
    const { register: registration } = parseCloudStackRequest(
      { ...VALUES, endpoint, 'api-key': 'a', 'secret-key': 'b' },
      'register',
      { cwd: '/' },
    )
    if (registration === undefined) throw new Error('no registration')
    const api = clientOf(cloud, endpoint)
    const patience = { ...registration, timeout: 30 }
    await expect(registerVersion(api, patience, [], { dryRun: false, log })).rejects.toThrow(
      /not ready within .*0% Downloaded[\s\S]*\n.*register-timeout/,
    )
    expect(cloud.versions).toHaveLength(1)
  })

  it('by a cancel leaves the download to CloudStack, and says so', async () => {
    cloud.downloadStep = 0
    const cancel = new AbortController()
    cloud.onCall = (command) => command === 'listIsos' && cancel.abort()
    const { failure } = await register({}, { signal: cancel.signal })
    expect(failure).toBeInstanceOf(Cancelled)
    expect(cloud.versions).toHaveLength(1)
    expect(log.warnings.join()).toMatch(/cancelled; v1.33.13-x86_64 .* stays registered/)
  })
})

describe('an answer of addKubernetesSupportedVersion that is lost', () => {
  it('is looked up, and the version that is there is taken', async () => {
    cloud.fault('addKubernetesSupportedVersion', { kind: 'lose answer' })
    const report = await register({ zones: 'zone-1' })
    expect(report.failure).toBeUndefined()
    expect(report.registered).toMatchObject([{ outcome: 'registered', id: cloud.versions[0]?.id }])
    expect(commands()).toEqual(['addKubernetesSupportedVersion'])
  })

  it('is an error when it did not take effect, and is not sent again', async () => {
    cloud.fault('addKubernetesSupportedVersion', { kind: 'drop' })
    const report = await register({ zones: 'zone-1' })
    expect(report.failure?.message).toContain('no answer from')
    expect(commands()).toEqual(['addKubernetesSupportedVersion'])
    expect(cloud.versions).toEqual([])
  })
})
