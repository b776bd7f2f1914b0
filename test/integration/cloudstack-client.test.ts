import { createServer, request as httpRequest, type Server } from 'node:http'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { NoAnswer, Refused, StillRunning } from '../../src/cloudstack/client.ts'
import { Cancelled, Failure, reasonOf } from '../../src/errors.ts'
import { type Certificates, makeCertificates } from '../cloudstack/certificates.ts'
import { clientOf, FAST, Lines } from '../cloudstack/rig.ts'
import { CloudStackStandIn } from '../cloudstack/stand-in.ts'

const failureOf = async (call: Promise<unknown>): Promise<Error> => {
  const thrown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(thrown instanceof Error)) throw new Error('the call did not fail')
  return thrown
}

let cloud: CloudStackStandIn
let endpoint: string

beforeEach(async () => {
  cloud = new CloudStackStandIn()
  endpoint = await cloud.start()
})
afterEach(() => cloud.stop())

describe('a call of the CloudStack API', () => {
  it('is signed so that CloudStack takes it, whatever the values hold', async () => {
    const api = clientOf(cloud, endpoint)
    for (const value of ['plain', 'a b+c', "~(x)!'*", 'é {SHA-256} ü/ö', 'a&b=c%20', '<min>:<max>']) {
      await api.read('listZones', { keyword: value })
      expect(cloud.calls.at(-1)?.parameters.keyword).toBe(value)
    }
  })

  it('is a POST: neither keys nor signature are in a URL', async () => {
    await clientOf(cloud, endpoint).read('listZones')
    expect(cloud.targets).toEqual(['/client/api'])
  })

  it('with a wrong secret key is an error that says what to check and holds no key', async () => {
    const failure = await failureOf(
      clientOf(cloud, endpoint, { secretKey: 'another-secret' }).read('listZones'),
    )
    expect(failure).toBeInstanceOf(Refused)
    expect(failure.message).toMatch(/^listZones: CloudStack answered 401: unable to verify/)
    expect(failure.message).toMatch(/\n.*api-key and secret-key.*clock/)
    expect(failure.message).not.toContain('another-secret')
    expect(failure.message).not.toContain(cloud.keys.apiKey)
  })

  it('shows no key that CloudStack, a proxy or a redirect quotes back', async () => {
    const { apiKey, secretKey } = cloud.keys
    const log = new Lines()
    const api = clientOf(cloud, endpoint, { log })
    const text = `<p>apiKey=${apiKey} secret=${secretKey}</p>`
    cloud.fault('listZones', { kind: 'error', code: 530, text: `failed: ${apiKey}/${secretKey}` })
    cloud.fault('listZones', { kind: 'answer', status: 200, text })
    cloud.fault('listZones', {
      kind: 'answer',
      status: 302,
      text,
      headers: { location: `http://x/?k=${apiKey}` },
    })
    cloud.fault('listZones', ...FAST.pauses.map(() => ({ kind: 'answer', status: 503, text }) as const))
    cloud.fault('listZones', { kind: 'answer', status: 503, text })
    const messages = []
    for (let call = 0; call < 4; call++) messages.push((await failureOf(api.read('listZones'))).message)
    const all = [...messages, log.text].join('\n')
    expect(all).toContain('***')
    expect(all).not.toContain(apiKey)
    expect(all).not.toContain(secretKey)
  })

  it.each([
    [431, 'Invalid parameter', /inputs/],
    [432, 'The given command does not exist', /root admin/],
    [401, "The given command 'x' either does not exist, is not available for user.", /root admin/],
    [530, 'Internal error', /management server log/],
    [535, 'No capacity', /management server log/],
  ])("that is answered with %i fails with CloudStack's words and advice", async (code, text, advice) => {
    cloud.fault('listZones', { kind: 'error', code, text })
    const failure = await failureOf(clientOf(cloud, endpoint).read('listZones'))
    expect(failure).toMatchObject({ code, reason: text })
    expect(failure.message).toMatch(advice)
    expect(cloud.calls).toHaveLength(1)
  })

  it('cannot forge a line of the log with its error text', async () => {
    cloud.fault('listZones', { kind: 'error', code: 530, text: 'a\n::error::b\r\nc\u2028d' })
    const failure = await failureOf(clientOf(cloud, endpoint).read('listZones'))
    expect(failure).toMatchObject({ reason: 'a ::error::b c d' })
  })

  it('at a URL that is no API says so', async () => {
    cloud.fault('listZones', { kind: 'answer', status: 200, text: '<html>hello</html>' })
    const failure = await failureOf(clientOf(cloud, endpoint).read('listZones'))
    expect(failure.message).toMatch(/no answer of the CloudStack API\n.*client\/api/)
  })

  it('follows no redirect: what is signed is for one host', async () => {
    cloud.fault('listZones', {
      kind: 'answer',
      status: 301,
      text: '',
      headers: { location: 'http://other.example/' },
    })
    const failure = await failureOf(clientOf(cloud, endpoint).read('listZones'))
    expect(failure.message).toMatch(/redirects to http:\/\/other\.example\//)
    expect(cloud.targets).toHaveLength(1)
  })
})

describe('a lost answer', () => {
  const losses = [{ kind: 'drop' }, { kind: 'half an answer' }, { kind: 'lose answer' }] as const

  it('of a read is asked for again', async () => {
    cloud.fault('listZones', ...losses)
    expect(await clientOf(cloud, endpoint).list('listZones', 'zone')).toHaveLength(2)
    expect(cloud.calls).toHaveLength(4)
  })

  it.each([429, 502, 503, 504])('of a read behind a %i is asked for again', async (status) => {
    cloud.fault('listZones', { kind: 'answer', status, text: 'busy', headers: { 'retry-after': '0' } })
    expect(await clientOf(cloud, endpoint).list('listZones', 'zone')).toHaveLength(2)
  })

  it('of a read that stays lost is an error that names the endpoint', async () => {
    cloud.fault('listZones', ...losses, { kind: 'drop' })
    const failure = await failureOf(clientOf(cloud, endpoint).read('listZones'))
    expect(failure).toBeInstanceOf(NoAnswer)
    expect(failure.message).toContain(endpoint)
  })

  it.each(losses)('of a change ($kind) is never sent again', async (fault) => {
    const version = cloud.addVersion('1.33.1')
    cloud.fault('deleteKubernetesSupportedVersion', fault)
    const failure = await failureOf(
      clientOf(cloud, endpoint).change('deleteKubernetesSupportedVersion', { id: version.id }),
    )
    expect(failure).toMatchObject({ mayHaveHappened: true })
    expect(cloud.changes).toHaveLength(1)
  })

  it('of a change behind a 502 or 504 may have been carried out', async () => {
    for (const status of [500, 502, 504]) {
      cloud.fault('scaleKubernetesCluster', { kind: 'answer', status, text: 'bad gateway' })
      const failure = await failureOf(clientOf(cloud, endpoint).change('scaleKubernetesCluster', {}))
      expect(failure).toMatchObject({ mayHaveHappened: true })
    }
  })

  it('of a server that was never reached was carried out for certain not', async () => {
    await cloud.stop()
    const failure = await failureOf(clientOf(cloud, endpoint).change('scaleKubernetesCluster', {}))
    expect(failure).toMatchObject({ mayHaveHappened: false })
  })

  it('is given up after the time for a request', async () => {
    cloud.fault('scaleKubernetesCluster', { kind: 'silence' })
    const api = clientOf(cloud, endpoint)
    const failure = await failureOf(api.change('scaleKubernetesCluster', {}))
    expect(failure).toMatchObject({ mayHaveHappened: true, reason: 'no answer within 2 s' })
  })

  it('is not waited for after a cancel', async () => {
    cloud.fault('listZones', { kind: 'silence' })
    const cancel = new AbortController()
    cloud.onCall = () => setTimeout(() => cancel.abort(), 10)
    const started = Date.now()
    const failure = await failureOf(clientOf(cloud, endpoint, { signal: cancel.signal }).read('listZones'))
    expect(failure).toBeInstanceOf(Cancelled)
    expect(Date.now() - started).toBeLessThan(1_000)
  })
})

describe('a list', () => {
  it('is read to its end, in pages as long as CloudStack allows', async () => {
    cloud.pageSize = 2
    const version = cloud.addVersion('1.33.1')
    for (const name of ['a', 'b', 'c', 'd', 'e']) cloud.addCluster(name, version)
    const clusters = await clientOf(cloud, endpoint).list('listKubernetesClusters', 'kubernetescluster')
    expect(clusters.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('may be empty', async () => {
    expect(await clientOf(cloud, endpoint).list('listKubernetesClusters', 'kubernetescluster')).toEqual([])
  })
})

describe('a job', () => {
  const jobOf = async (log = new Lines(), timeout = 5_000) => {
    const api = clientOf(cloud, endpoint, { log })
    const version = cloud.versions[0] ?? cloud.addVersion('1.33.1')
    return await api.job(
      await api.change('deleteKubernetesSupportedVersion', { id: version.id }),
      'removal',
      timeout,
    )
  }

  it('is asked for until it ends, and the log says that it runs', async () => {
    cloud.jobTime = 150
    const log = new Lines()
    expect(await jobOf(log)).toMatchObject({ success: true })
    expect(log.text).toMatch(/info: removal: job \S+ is running/)
    expect(cloud.calls.filter(({ command }) => command === 'queryAsyncJobResult').length).toBeGreaterThan(3)
  })

  it('that fails gives its own reason', async () => {
    cloud.addCluster('a', cloud.addVersion('1.33.1'))
    const failure = await failureOf(jobOf())
    expect(failure).toMatchObject({ code: 530, reason: expect.stringContaining('Existing clusters') })
  })

  it('is still followed after CloudStack was away for a while', async () => {
    cloud.jobTime = 60
    const drops = Array.from({ length: FAST.pauses.length + 1 }, () => ({ kind: 'drop' }) as const)
    cloud.fault('queryAsyncJobResult', ...drops)
    const log = new Lines()
    expect(await jobOf(log)).toMatchObject({ success: true })
    expect(log.text).toContain('cannot be seen at the moment')
  })

  it('that does not end in time is left to CloudStack, and the error says so', async () => {
    cloud.fault('deleteKubernetesSupportedVersion', { kind: 'job hangs' })
    const failure = await failureOf(jobOf(new Lines(), 20))
    expect(failure).toBeInstanceOf(StillRunning)
    expect(failure.message).toContain('goes on in CloudStack')
  })
})

describe('TLS', () => {
  let certificates: Certificates
  let secure: CloudStackStandIn
  let url: string

  beforeAll(async () => {
    certificates = await makeCertificates()
    secure = new CloudStackStandIn()
    url = await secure.start(certificates.server)
  })
  afterAll(() => secure.stop())

  it('is refused for a certificate that Node does not know, at once and with advice', async () => {
    const log = new Lines()
    const failure = await failureOf(clientOf(secure, url, { log }).read('listZones'))
    expect(failure).toBeInstanceOf(Failure)
    expect(failure.message).toMatch(/no TLS connection.*\n.*ca-file/)
    expect(log.text).not.toContain('again in')
  })

  it('works with the CA of ca-file', async () => {
    expect(await clientOf(secure, url, { ca: certificates.ca }).list('listZones', 'zone')).toHaveLength(2)
  })

  it('is refused when ca-file is the CA of somebody else', async () => {
    const { ca } = await makeCertificates()
    await expect(clientOf(secure, url, { ca }).read('listZones')).rejects.toThrow(/no TLS connection/)
  })

  it('is refused when the certificate is for another host', async () => {
    const elsewhere = url.replace('127.0.0.1', 'localhost')
    const failure = await failureOf(clientOf(secure, elsewhere, { ca: certificates.ca }).read('listZones'))
    expect(failure.message).toMatch(/no TLS connection.*localhost/)
  })

  describe('through a proxy', () => {
    let proxy: Server
    const tunnels: string[] = []
    const open = new Set<unknown>()

    beforeAll(async () => {
      // Whatever name is asked for leads to the stand-in: the proxy is who resolves it.
      proxy = createServer((_request, response) => response.writeHead(405).end())
      proxy.on('connect', (request, socket) => {
        tunnels.push(request.url ?? '')
        open.add(socket)
        socket.on('close', () => open.delete(socket))
        if (request.url?.startsWith('forbidden.')) {
          socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
          return
        }
        const upstream = connect(secure.port, '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
          upstream.pipe(socket).pipe(upstream)
        })
        upstream.on('error', () => socket.destroy())
        upstream.on('close', () => socket.resume())
        socket.on('error', () => upstream.destroy())
      })
      await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
      const address = proxy.address()
      if (typeof address !== 'object' || address === null) throw new Error('no proxy')
      vi.stubEnv('https_proxy', `http://127.0.0.1:${address.port}`)
      vi.stubEnv('no_proxy', '')
    })
    afterAll(async () => {
      vi.unstubAllEnvs()
      proxy.closeAllConnections()
      await new Promise((resolve) => proxy.close(resolve))
    })

    it('the CA of ca-file counts too, and the proxy sees no key', async () => {
      const api = clientOf(secure, 'https://cloudstack.example:8443/client/api', { ca: certificates.ca })
      expect(await api.list('listZones', 'zone')).toHaveLength(2)
      expect(tunnels).toContain('cloudstack.example:8443')
    })

    it('another CA is refused', async () => {
      const api = clientOf(secure, 'https://cloudstack.example:8443/client/api')
      await expect(api.read('listZones')).rejects.toThrow(/no TLS connection/)
    })

    it('no connection is left behind by either', async () => {
      await expect.poll(() => open.size).toBe(0)
    })

    it('that says no, nothing was asked of CloudStack', async () => {
      const api = clientOf(secure, 'https://forbidden.example/client/api', { ca: certificates.ca })
      const failure = await failureOf(api.change('scaleKubernetesCluster', {}))
      expect(failure).toMatchObject({ mayHaveHappened: false })
      expect(reasonOf(failure)).toContain('403')
    })
  })
})

it('the stand-in takes no unsigned call', async () => {
  const status = await new Promise((resolve, reject) => {
    httpRequest(`${endpoint}?command=listZones&response=json`, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
      .on('error', reject)
      .end()
  })
  expect(status).toBe(401)
})
