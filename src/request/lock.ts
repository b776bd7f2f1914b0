import { Failure } from '../errors.ts'
import type { IsoRecord } from '../record/record.ts'
import type { SettingValues } from './settings.ts'

/** An earlier build that is to be repeated to the byte. */
export interface Lock {
  /** Where its record was read, for messages. */
  readonly name: string
  readonly record: IsoRecord
}

/** What a lock says of the settings, as a user would write them. */
export function lockedSettings({ record }: Lock): SettingValues {
  const { versions, platform, cloudstack } = record
  const settings = {
    'kubernetes-version': versions.kubernetes,
    'cni-version': versions['cni-plugins'],
    'crictl-version': versions.crictl,
    'autoscaler-version': versions.autoscaler,
    'ccm-version': versions.ccm,
    'csi-version': versions.csi,
    'etcd-version': versions.etcd,
    network: versions.network,
    dashboard: versions.dashboard,
    arch: platform.replace(/^linux\//, ''),
    'cloudstack-version': cloudstack,
  }
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}

/**
 * The Failure for bytes that are not those of the lock.
 * @param what such as `kubectl` or `The image registry.k8s.io/pause:3.10`
 * @param found what is there now: `SHA-256 …`, `sha256:…`
 * @param locked what the lock says it was
 */
export function notAsLocked(what: string, found: string, locked: string): Failure {
  return new Failure(
    `${what} has changed: it is ${found} now, and the lock says ${locked}`,
    'The ISO of the lock cannot be built from it. Find out who changed it; name a mirror that kept it in mirrors, or leave lock empty to build with what is there now.',
  )
}
