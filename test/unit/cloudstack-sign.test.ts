import { describe, expect, it } from 'vitest'
import { signatureOf, signedForm } from '../../src/cloudstack/sign.ts'

describe('the signature of a CloudStack call', () => {
  it("is the one of the developer guide's worked example", () => {
    const parameters = {
      command: 'listUsers',
      response: 'json',
      apikey: 'plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg',
    }
    const secretKey = 'VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ'
    expect(signatureOf(parameters, secretKey)).toBe('TTpdDq/7j/J58XCRHomKoQXEQds=')
  })

  it('does not depend on the order in which parameters are given', () => {
    expect(signatureOf({ b: '1', a: '2' }, 'k')).toBe(signatureOf({ a: '2', b: '1' }, 'k'))
  })

  it('carries version 3 and an expiry to the second, in UTC', () => {
    const form = signedForm(
      { command: 'x' },
      { apiKey: 'a', secretKey: 'b' },
      new Date('2026-03-04T05:06:07.890Z'),
    )
    const sent = new URLSearchParams(form)
    expect(sent.get('signatureVersion')).toBe('3')
    expect(sent.get('expires')).toBe('2026-03-04T05:06:07+0000')
    expect(sent.get('apiKey')).toBe('a')
    expect(form).not.toContain('secret')
  })

  it("encodes values as Java's URLEncoder does, with %20 for a blank", () => {
    const form = signedForm({ name: "a b~(c)!'*é{+}" }, { apiKey: 'a', secretKey: 'b' }, new Date(0))
    expect(form).toContain('name=a%20b%7E%28c%29%21%27*%C3%A9%7B%2B%7D')
  })
})
