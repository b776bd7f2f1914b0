import {
  type Alias,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Pair,
  type Scalar,
  type YAMLMap,
} from 'yaml'

/** What each alias of a manifest stands for: the last node before it that has its anchor. */
export type Aliases = ReadonlyMap<Alias, unknown>

/** A key of a map and what it holds: an alias stays one, null is nothing at all, as after the key in `{a}`. */
export interface Entry {
  readonly key: Scalar
  readonly value: unknown
}

/** The node itself, or what it stands for when it is an alias. */
export function resolved(aliases: Aliases, node: unknown): unknown {
  return isAlias(node) ? aliases.get(node) : node
}

/** The text of a string scalar, through aliases; undefined for anything else. */
export function stringOf(aliases: Aliases, node: unknown): string | undefined {
  const scalar = resolved(aliases, node)
  return isScalar(scalar) && typeof scalar.value === 'string' ? scalar.value : undefined
}

/** The items of a sequence, through aliases; none for anything else. */
export function itemsOf(aliases: Aliases, node: unknown): readonly unknown[] {
  const sequence = resolved(aliases, node)
  return isSeq(sequence) ? sequence.items : []
}

/** The map that the node is or stands for. */
export function mapOf(aliases: Aliases, node: unknown): YAMLMap | undefined {
  const map = resolved(aliases, node)
  return isMap(map) ? map : undefined
}

/**
 * The entries of a map as kubectl reads them (go-yaml v2, decoder.mapping and decoder.merge): in the order of
 * the text, where a later key and a later `<<` override what is there; of the maps in one `<<: [a, b]` the
 * earlier wins. Empty for anything that is no map.
 */
export function entriesOf(aliases: Aliases, node: unknown): ReadonlyMap<string, Entry> {
  const entries = new Map<string, Entry>()
  for (const pair of mapOf(aliases, node)?.items ?? []) {
    if (isMergeKey(pair)) {
      const source = resolved(aliases, pair.value)
      for (const merged of isSeq(source) ? source.items.toReversed() : [source]) {
        for (const [name, entry] of entriesOf(aliases, merged)) entries.set(name, entry)
      }
      continue
    }
    const key = resolved(aliases, pair.key)
    if (isScalar(key)) entries.set(String(key.value), { key, value: pair.value })
  }
  return entries
}

/** What stands at a path of keys, through aliases and merge keys; undefined when a key is missing. */
export function at(aliases: Aliases, node: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((map, key) => resolved(aliases, entriesOf(aliases, map).get(key)?.value), node)
}

/** A plain `<<`: the parser gives it a symbol in place of its text. */
export function isMergeKey(pair: Pair): boolean {
  return isScalar(pair.key) && typeof pair.key.value === 'symbol'
}

/** Where a node begins, as an offset into the text of its manifest. */
export function offsetOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0
}

/** A string value and where it stands: keys, and `[2]` for an item of a sequence. */
export interface StringValue {
  readonly path: readonly string[]
  readonly text: string
  readonly node: Scalar
}

/** Every string value below a node. Aliases are not followed: what they stand for comes where it stands. */
export function stringsIn(node: unknown, path: readonly string[] = []): readonly StringValue[] {
  if (isScalar(node)) return typeof node.value === 'string' ? [{ path, text: node.value, node }] : []
  if (isSeq(node)) return node.items.flatMap((item, index) => stringsIn(item, [...path, `[${index}]`]))
  if (!isMap(node)) return []
  return node.items.flatMap(({ key, value }) =>
    stringsIn(value, [...path, String(isScalar(key) ? key.value : key)]),
  )
}
