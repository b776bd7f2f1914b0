import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ActRig, makeActRig } from '../act/rig.ts'
import { act } from '../containerds.ts'
import { type Bench, makeBench, readIso } from '../harness.ts'
import { type ResultsService, startResultsService } from '../results-service/results-service.ts'
import { startUpstream, type Upstream } from '../upstream/upstream.ts'

const NAME = 'setup-v1.33.13-x86_64'
const ISO = `${NAME}.iso`

if (act === undefined) {
  console.warn('act is not on this machine, so no workflow is run: "npm run setup" builds it where Go is.')
}

describe.skipIf(act === undefined)('nightly.yml, run by act', () => {
  let upstream: Upstream
  let service: ResultsService
  let bench: Bench
  let rig: ActRig

  beforeAll(async () => {
    upstream = await startUpstream()
    service = await startResultsService()
    bench = await makeBench()
    rig = await makeActRig(act ?? '', bench, service.env)
  })

  afterAll(async () => {
    await rig?.close()
    await bench?.close()
    await service?.close()
    await upstream?.close()
  })

  // Nothing here can attest, as for a private repository.
  const nightly = (attest = 'false') =>
    rig.dispatch(
      'nightly.yml',
      { minors: '1.33' },
      { CKS_ISO_MIRRORS: upstream.mirrors, CKS_ISO_ATTEST: attest },
    )

  it('publishes nothing that could not be attested', async () => {
    const { code, output } = await nightly('true')
    expect(code, output).not.toBe(0)
    expect(output).toContain('nothing here can attest')
    expect(output).toContain(`${ISO} is not published: its job failed after the build`)
    expect(service.artifacts.map(({ name }) => name)).toContain(ISO)
    expect(await readdir(rig.releases)).toEqual([])
  })

  it('plans, builds and publishes what is not released yet, the ISO last', async () => {
    service.clear()
    const before = (await rig.ghCalls()).length
    const { code, output } = await nightly()
    expect(code, output).toBe(0)

    const files = [
      `${NAME}.cdx.json`,
      ISO,
      `${ISO}.md5`,
      `${ISO}.sha256`,
      `${ISO}.sha512`,
      `${NAME}.versions.txt`,
    ]
    expect(service.artifacts.map(({ name }) => name).toSorted()).toEqual(
      [...files, `${ISO}.complete`].toSorted(),
    )
    const published = join(rig.releases, 'v1.33.13')
    expect((await readdir(published)).toSorted()).toEqual(files)
    for (const file of files) {
      expect(await readFile(join(published, file)), file).toEqual(await service.artifact(file))
    }
    const iso = await readIso(join(published, ISO), bench)
    expect((await iso.record()).versions.kubernetes).toBe('1.33.13')
    expect(service.entries.length).toBeGreaterThan(20)
    expect(upstream.counts().blobs).toBeGreaterThan(20)

    const calls = (await rig.ghCalls()).slice(before)
    expect(calls.map((call) => call.slice(0, call[0] === 'release' ? 3 : 1))).toEqual([
      ['api'],
      ['release', 'view', 'v1.33.13'],
      ['release', 'create', 'v1.33.13'],
      ['release', 'upload', 'v1.33.13'],
      ['release', 'upload', 'v1.33.13'],
    ])
    expect(
      calls
        .at(-1)
        ?.slice(3)
        .map((file) => basename(file)),
    ).toEqual([ISO])
  })

  it('builds and publishes nothing when everything is released', async () => {
    const before = await rig.ghCalls()
    service.clearCalls()
    const { code, output } = await nightly()
    expect(code, output).toBe(0)
    expect(output).toContain('1.33.13')
    expect(service.calls).toEqual([])
    expect((await rig.ghCalls()).slice(before.length).map(([command]) => command)).toEqual(['api'])
  })

  it('leaves the working tree as it was, and no files or processes', async () => {
    expect(await rig.changes()).toBe('')
    expect(await readdir(bench.temp)).toEqual([])
    expect(await rig.leftovers()).toEqual([])
  })
})
