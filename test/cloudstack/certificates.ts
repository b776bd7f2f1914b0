import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Pair {
  readonly cert: string
  readonly key: string
}

export interface Certificates {
  /** The CA that signed both. */
  readonly ca: string
  /** For 127.0.0.1 and cloudstack.example. */
  readonly server: Pair
  readonly client: Pair
}

/** A CA of our own with a server and a client certificate, PEM each. */
export async function makeCertificates(): Promise<Certificates> {
  const dir = await mkdtemp(join(tmpdir(), 'cks-iso-certificates-'))
  try {
    const path = (name: string) => join(dir, name)
    const openssl = (...args: string[]) => run('openssl', args, { cwd: dir, timeout: 20_000 })
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const
    const ca = [
      '-x509',
      ...newKey,
      '-days',
      '2',
      '-subj',
      '/CN=test CA',
      '-keyout',
      'ca.key',
      '-out',
      'ca.crt',
    ]
    await openssl('req', ...ca)
    const signed = async (name: string, subject: string, extensions: string): Promise<Pair> => {
      await writeFile(path(`${name}.ext`), extensions)
      await openssl('req', ...newKey, '-subj', subject, '-keyout', `${name}.key`, '-out', `${name}.csr`)
      const signing = ['-req', '-in', `${name}.csr`, '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial']
      await openssl('x509', ...signing, '-days', '2', '-extfile', `${name}.ext`, '-out', `${name}.crt`)
      return {
        cert: await readFile(path(`${name}.crt`), 'utf8'),
        key: await readFile(path(`${name}.key`), 'utf8'),
      }
    }
    const server = await signed(
      'server',
      '/CN=server',
      'subjectAltName=IP:127.0.0.1,DNS:cloudstack.example\nextendedKeyUsage=serverAuth\n',
    )
    const client = await signed(
      'client',
      '/O=system:masters/CN=kubernetes-admin',
      'extendedKeyUsage=clientAuth\n',
    )
    return { ca: await readFile(path('ca.crt'), 'utf8'), server, client }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
