import { posix } from 'node:path'
import { Failure } from '../errors.ts'

const SHA256 = /^[0-9a-f]{64}$/i
const GNU = /^([0-9a-f]{64})[ \t]+\*?(.+)$/i
const BSD = /^SHA256 ?\((.+)\) ?= ?([0-9a-f]{64})$/i

/**
 * Reads a published checksum file in any of the forms in use: a bare hash, `hash  name`, `hash *name` or
 * `SHA256 (name) = hash`, one or many lines. Where names are given, the one of our file counts.
 * @param text the checksum file
 * @param fileUrl URL of the file it is for; its last path part is the name looked for
 * @returns 64 lower-case hexadecimal digits
 * @throws Failure when no line, or no unambiguous one, is for our file
 */
export function publishedSha256(text: string, checksumUrl: string, fileUrl: string): string {
  const name = posix.basename(new URL(fileUrl).pathname)
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const [only] = lines
  if (lines.length === 1 && only !== undefined && SHA256.test(only)) return only.toLowerCase()

  const hashes = new Set(lines.map(readNamed).flatMap((entry) => (entry?.name === name ? [entry.hash] : [])))
  const [hash] = hashes
  if (hash === undefined || hashes.size > 1) {
    throw new Failure(
      `The checksum file ${checksumUrl} holds ${hash === undefined ? 'no SHA-256 of' : 'different SHA-256s for'} ${name}; it starts with ${JSON.stringify(text.slice(0, 80))}`,
      'Open that URL: a proxy or a mirror may answer with a page of its own. Nothing unverified goes onto the ISO.',
    )
  }
  return hash
}

function readNamed(line: string): { name: string; hash: string } | undefined {
  const gnu = GNU.exec(line)
  if (gnu?.[1] !== undefined && gnu[2] !== undefined) {
    return { hash: gnu[1].toLowerCase(), name: posix.basename(gnu[2]) }
  }
  const bsd = BSD.exec(line)
  if (bsd?.[1] !== undefined && bsd[2] !== undefined) {
    return { hash: bsd[2].toLowerCase(), name: posix.basename(bsd[1]) }
  }
  return undefined
}
