import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { machineCache } from '../../src/machine-cache.ts'
import type { PieceKey, RunCache } from '../../src/piece-cache.ts'
import { type Bench, makeBench } from '../harness.ts'
import { type KeptLog, keptLog } from '../log.ts'

const KEY: PieceKey = { kind: 'file', name: 'https://dl.example/kubelet', facts: ['abc'] }
const never = new AbortController().signal

let bench: Bench
let log: KeptLog
let cache: RunCache
let tools: string

beforeEach(async () => {
  bench = await makeBench()
  tools = join(bench.dir, 'tools')
  vi.stubEnv('RUNNER_TOOL_CACHE', tools)
  vi.stubEnv('RUNNER_TEMP', bench.temp)
  // The tool cache writes runner commands.
  vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  log = keptLog()
  const made = machineCache(bench.temp, log)
  if (made === undefined) throw new Error('there should be a tool cache')
  cache = made
  const piece = join(bench.dir, 'piece')
  await writeFile(piece, 'content')
  await cache.save(KEY, piece, 'a note')
})

afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await bench.close()
})

const restore = async (key = KEY, wrong?: string) =>
  await cache.restore(key, join(bench.out, 'piece'), async () => wrong, never)

const kept = async () => await readdir(join(tools, 'cks-iso'))

it('brings back what was saved, with its note, and nothing under another key', async () => {
  expect(await restore()).toEqual({ note: 'a note' })
  expect(await readFile(join(bench.out, 'piece'), 'utf8')).toBe('content')
  expect(await restore({ ...KEY, facts: ['abd'] })).toBeUndefined()
  expect(cache.lookups.map(({ hit }) => hit)).toEqual([true, false])
  expect(await readdir(bench.temp)).toEqual([])
})

it('drops a piece that is not what it should be, and says so', async () => {
  expect(await restore(KEY, 'it has another checksum')).toBeUndefined()
  expect(await readdir(bench.out)).toEqual([])
  expect(await kept()).toEqual([])
  expect(log.notices.join()).toMatch(/copy of https:\/\/dl\.example\/kubelet .* another checksum/)
})

it('keeps what was used within 30 days, and removes the rest', async () => {
  const [entry = ''] = await kept()
  const mark = async () => {
    const names = await readdir(join(tools, 'cks-iso', entry))
    return join(tools, 'cks-iso', entry, names.find((name) => name.endsWith('.complete')) ?? '')
  }
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60_000)
  await utimes(await mark(), daysAgo(29), daysAgo(29))
  await cache.close(never)
  expect(await kept()).toEqual([entry])

  await utimes(await mark(), daysAgo(31), daysAgo(31))
  await restore()
  await cache.close(never)
  expect(await kept()).toEqual([entry])

  await utimes(await mark(), daysAgo(31), daysAgo(31))
  const unfinished = join(tools, 'cks-iso', '1.0.0-kunfinished')
  await mkdir(unfinished)
  await cache.close(never)
  expect(await kept()).toEqual(['1.0.0-kunfinished'])
  await utimes(unfinished, daysAgo(31), daysAgo(31))
  await cache.close(never)
  expect(await kept()).toEqual([])
})

it('is none where nobody says where the tool cache is', () => {
  vi.stubEnv('RUNNER_TOOL_CACHE', '')
  expect(machineCache(bench.temp, log)).toBeUndefined()
})
