import { createHmac } from 'node:crypto'

/** The key pair of a CloudStack user. Neither half is ever written anywhere. */
export interface ApiKeys {
  readonly apiKey: string
  readonly secretKey: string
}

/**
 * The parameters of a call as a signed form body, with signatureVersion 3: `expires` bounds how long the request can
 * be replayed (CloudStack's developer guide, "Enabling API Call Expiration").
 * @param expires when the signature stops being good, by CloudStack's clock
 */
export function signedForm(
  parameters: Readonly<Record<string, string>>,
  keys: ApiKeys,
  expires: Date,
): string {
  const all = {
    ...parameters,
    apiKey: keys.apiKey,
    signatureVersion: '3',
    expires: `${expires.toISOString().slice(0, 19)}+0000`,
  }
  return `${formOf(all)}&signature=${encoded(signatureOf(all, keys.secretKey))}`
}

/**
 * CloudStack (its developer guide, "Signing API Requests", and ApiServer.verifyRequest) sorts the parameters by name,
 * encodes their values, lower-cases the whole and takes its HMAC-SHA1 in base64.
 */
export function signatureOf(parameters: Readonly<Record<string, string>>, secretKey: string): string {
  return createHmac('sha1', secretKey).update(formOf(parameters).toLowerCase()).digest('base64')
}

function formOf(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${encoded(value)}`)
    .join('&')
}

/** java.net.URLEncoder with `+` made `%20`: unlike encodeURIComponent it encodes `!`, `'`, `(`, `)` and `~`. */
function encoded(value: string): string {
  return encodeURIComponent(value).replace(
    /[!'()~]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
