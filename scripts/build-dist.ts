import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { build } from 'esbuild'

/** Bundles each front door for the runner: one file a door, nothing to install, and the licences of what is in it. */

const root = resolve(import.meta.dirname, '..')
const dist = join(root, 'dist')
const ENTRIES = {
  index: 'action.ts',
  post: 'post.ts',
  cli: 'cli.ts',
  matrix: 'matrix.ts',
  upgrade: 'upgrade.ts',
}

await rm(dist, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: Object.fromEntries(Object.entries(ENTRIES).map(([out, entry]) => [out, `src/entry/${entry}`])),
  outdir: 'dist',
  bundle: true,
  platform: 'node',
  target: 'node20.18',
  format: 'esm',
  legalComments: 'none',
  // An optional part of the CycloneDX library, for XML, which nothing here writes.
  external: ['xmlbuilder2'],
  metafile: true,
  logLevel: 'warning',
  // Some dependencies are CommonJS and call require for Node's own modules.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
})
await writeFile(join(dist, 'package.json'), '{ "type": "module" }\n')
await writeFile(join(dist, 'licenses.txt'), await licences(Object.keys(metafile.inputs)))

/** The licence texts of the packages that the bundles hold. */
async function licences(inputs: readonly string[]): Promise<string> {
  const packages = new Set(
    inputs.flatMap((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []),
  )
  const texts = await Promise.all([...packages].toSorted().map(licenceOf))
  return texts.join('\n')
}

async function licenceOf(path: string): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(root, path, 'package.json'), 'utf8'))
  const files = (await readdir(join(root, path)))
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .toSorted()
  const texts = await Promise.all(files.map((file) => readFile(join(root, path, file), 'utf8')))
  return [`${name} ${version} (${license ?? 'see below'})`, ...texts.map((text) => text.trim()), ''].join(
    '\n\n',
  )
}
