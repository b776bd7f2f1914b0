import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  BlobSASPermissions,
  BlobServiceClient,
  type ContainerClient,
  StorageSharedKeyCredential,
} from '@azure/storage-blob'

/** The account that every Azurite has; it is documented, and secures nothing. */
const ACCOUNT = 'devstoreaccount1'
const KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

/** Microsoft's own emulator of Azure's blob store, on a free port of loopback. */
export interface BlobStore {
  /**
   * A URL with which the blob can be written or read, and nothing else can be done.
   * @param fileName what a download is to be called; absent: the answer does not say
   */
  signedUrl(blob: string, access: 'write' | 'read', fileName?: string): Promise<string>
  read(blob: string): Promise<Buffer>
  write(blob: string, bytes: Buffer): Promise<void>
  close(): Promise<void>
}

export async function startBlobStore(): Promise<BlobStore> {
  const dir = await mkdtemp(join(tmpdir(), 'azurite-'))
  const program = createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js')
  const flags = ['--blobPort', '0', '--location', dir, '--silent', '--loose']
  const child = spawn(process.execPath, [program, ...flags, '--skipApiVersionCheck', '--disableTelemetry'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: dir,
  })
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  const close = async (): Promise<void> => {
    process.removeListener('exit', kill)
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    await rm(dir, { recursive: true, force: true })
  }
  try {
    const container = await containerOf(await origin(child))
    return {
      signedUrl: async (blob, access, fileName) =>
        await container.getBlockBlobClient(blob).generateSasUrl({
          permissions: BlobSASPermissions.parse(access === 'write' ? 'cw' : 'r'),
          expiresOn: new Date(Date.now() + 3_600_000),
          ...(fileName === undefined ? {} : { contentDisposition: `attachment; filename="${fileName}"` }),
        }),
      read: async (blob) => await container.getBlockBlobClient(blob).downloadToBuffer(),
      write: async (blob, bytes) => {
        await container.getBlockBlobClient(blob).uploadData(bytes)
      },
      close,
    }
  } catch (thrown) {
    await close()
    throw thrown
  }
}

async function containerOf(start: string): Promise<ContainerClient> {
  const client = new BlobServiceClient(`${start}/${ACCOUNT}`, new StorageSharedKeyCredential(ACCOUNT, KEY))
  const container = client.getContainerClient('results')
  await container.create()
  return container
}

/** Where Azurite says that it listens. */
async function origin(child: ChildProcess): Promise<string> {
  let output = ''
  return await new Promise((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk
      const url = /successfully listens on (\S+)/.exec(output)?.[1]
      if (url !== undefined) resolve(url)
    }
    child.stdout?.on('data', read)
    child.stderr?.on('data', read)
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`Azurite ended: ${output}`)))
  })
}
