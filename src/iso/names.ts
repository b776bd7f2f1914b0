import { Failure } from '../errors.ts'

/** With `-joliet-long`; a longer name would be cut. In UTF-16 code units. */
const LONGEST_JOLIET_NAME = 103

/** NAME_MAX of Linux, which is also what Rock Ridge writers keep whole. In bytes of UTF-8. */
const LONGEST_NAME = 255

/** ECMA-119, 6.8.2.1: deeper directories would be moved elsewhere. Counts the file itself. */
const DEEPEST = 8

/** A name as it stands in the Joliet tree, where some characters are not allowed. */
export function jolietFormOf(name: string): string {
  return name.replace(/[*/:;?\\]/g, '_')
}

/**
 * Checks the paths that an ISO is to hold: relative, with `/`, and kept whole by both Rock Ridge and Joliet.
 * @throws Failure that names the first path which is not, or the two that would become one
 */
export function checkIsoPaths(paths: readonly string[]): void {
  const files = new Set<string>()
  for (const path of paths) {
    const fault = faultOf(path)
    if (fault !== undefined) throw renameFailure(JSON.stringify(path), fault)
    if (files.has(path)) throw renameFailure(path, 'two files have that path')
    files.add(path)
  }
  const byJoliet = new Map<string, string>()
  for (const file of paths) {
    for (const path of [...parentsOf(file), file]) {
      if (path !== file && files.has(path)) throw renameFailure(file, `${path} is a file, not a directory`)
      const joliet = path.split('/').map(jolietFormOf).join('/')
      const other = byJoliet.get(joliet) ?? path
      if (other !== path) {
        throw renameFailure(path, `it and ${other} have one name, ${joliet}, where Joliet is read`)
      }
      byJoliet.set(joliet, path)
    }
  }
}

function renameFailure(path: string, fault: string): Failure {
  return new Failure(`${path} cannot be put on the ISO: ${fault}`, 'Give the file another name.')
}

/** The directories above a path, the outermost first. */
export function parentsOf(path: string): readonly string[] {
  const parts = path.split('/')
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('/'))
}

function faultOf(path: string): string | undefined {
  const parts = path.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..')) {
    return 'the path must be relative to the root of the ISO, without empty parts, . and ..'
  }
  if (/\p{Cc}/u.test(path)) return 'its name holds a control character'
  if (parts.length > DEEPEST) return `it lies deeper than ${DEEPEST} levels`
  if (parts.some((part) => part.length > LONGEST_JOLIET_NAME || Buffer.byteLength(part) > LONGEST_NAME)) {
    return `a name may have ${LONGEST_JOLIET_NAME} characters and ${LONGEST_NAME} bytes`
  }
  return undefined
}
