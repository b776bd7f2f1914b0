import { Failure } from '../errors.ts'

/** Reads an input that is on or off. @throws Failure for anything but true and false, in any case */
export function parseSwitch(text: string, name: string): boolean {
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  throw new Failure(
    `${name}: ${JSON.stringify(text)} is neither true nor false`,
    `Set ${name} to true or false.`,
  )
}
