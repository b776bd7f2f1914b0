import { tmpdir } from 'node:os'
import { CloudStack } from '../../src/cloudstack/client.ts'
import { parseCloudStackRequest } from '../../src/cloudstack/request.ts'
import { type CloudStackReport, runCloudStack } from '../../src/cloudstack/run.ts'
import type { CloudStackValues } from '../../src/cloudstack/settings.ts'
import type { Timing } from '../../src/cloudstack/timing.ts'
import type { Log } from '../../src/log.ts'
import { runGroup } from '../log.ts'
import type { CloudStackStandIn } from './stand-in.ts'

/** Patience for a stand-in that is a thousand times faster than CloudStack, in milliseconds. */
export const FAST: Timing = {
  poll: 5,
  request: 2_000,
  pauses: [5, 10, 20],
  settle: 150,
  restore: 1_000,
  remind: 20,
}

/** A log that remembers. */
export class Lines implements Log {
  readonly all: string[] = []
  readonly warnings: string[] = []
  info = (message: string) => void this.all.push(`info: ${message}`)
  notice = (message: string) => void this.all.push(`notice: ${message}`)
  debug = (message: string) => void this.all.push(`debug: ${message}`)
  group = runGroup
  warning = (message: string) => {
    this.all.push(`warning: ${message}`)
    this.warnings.push(message)
  }

  get text(): string {
    return this.all.join('\n')
  }
}

export interface RunOptions {
  readonly log?: Lines
  readonly signal?: AbortSignal
  readonly timing?: Partial<Timing>
}

/** A whole run of the action against the stand-in. */
export async function runAgainst(
  cloud: CloudStackStandIn,
  endpoint: string,
  values: CloudStackValues,
  { log = new Lines(), signal = new AbortController().signal, timing = {} }: RunOptions = {},
): Promise<CloudStackReport> {
  const request = parseCloudStackRequest(
    { endpoint, 'api-key': cloud.keys.apiKey, 'secret-key': cloud.keys.secretKey, ...values },
    'action',
    { cwd: tmpdir() },
  )
  return await runCloudStack(request, {
    log,
    signal,
    cwd: tmpdir(),
    tempDir: tmpdir(),
    timing: { ...FAST, ...timing },
  })
}

export function clientOf(
  cloud: CloudStackStandIn,
  endpoint: string,
  more: {
    readonly log?: Log
    readonly signal?: AbortSignal
    readonly ca?: string
    readonly secretKey?: string
  } = {},
): CloudStack {
  const {
    log = new Lines(),
    signal = new AbortController().signal,
    ca,
    secretKey = cloud.keys.secretKey,
  } = more
  return new CloudStack({
    endpoint,
    keys: { apiKey: cloud.keys.apiKey, secretKey },
    log,
    signal,
    timing: FAST,
    ...(ca === undefined ? {} : { ca }),
  })
}
