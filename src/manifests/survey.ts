import { type Alias, type Document, isAlias, isMap, isNode, isScalar, isSeq, type YAMLMap } from 'yaml'
import { isMergeKey, offsetOf } from './nodes.ts'

/**
 * How many nodes the aliases of one document may add when they are written out: real manifests add some
 * dozens, an alias bomb billions. go-yaml, and so kubectl, grows strict at the same number of nodes.
 */
const MOST_ALIASED_NODES = 400_000

/** What to do about a finding at an offset of the text. */
export interface SurveyReport {
  /** Makes the error to throw. */
  fail(offset: number, why: string): Error
  duplicate(offset: number, key: string): void
}

/**
 * Visits every node of a document once: finds what each alias stands for, adding it to `aliases`, and the keys
 * that stand twice in one map.
 * @throws what `report.fail` makes: for an alias without anchor, one inside its own anchor, and an alias bomb
 */
export function survey(document: Document.Parsed, aliases: Map<Alias, unknown>, report: SurveyReport): void {
  const anchors = new Map<string, unknown>()
  /** Nodes below an anchor, aliases written out; absent while the visit is still below it. */
  const sizes = new Map<unknown, number>()
  let aliased = 0

  function sizeOf(node: unknown): number {
    if (!isNode(node)) return 0
    if (isAlias(node)) return sizeOfAlias(node)
    if (node.anchor !== undefined) anchors.set(node.anchor, node)
    const size = 1 + sizeOfChildren(node)
    if (node.anchor !== undefined) sizes.set(node, size)
    return size
  }

  function sizeOfChildren(node: unknown): number {
    if (isSeq(node)) return node.items.reduce<number>((sum, item) => sum + sizeOf(item), 0)
    if (!isMap(node)) return 0
    reportDuplicates(node, report)
    return node.items.reduce((sum, { key, value }) => sum + sizeOf(key) + sizeOf(value), 0)
  }

  function sizeOfAlias(alias: Alias): number {
    const offset = offsetOf(alias)
    const target = anchors.get(alias.source)
    if (target === undefined)
      throw report.fail(offset, `no anchor "${alias.source}" stands before this alias`)
    const size = sizes.get(target)
    if (size === undefined) throw report.fail(offset, `the anchor "${alias.source}" contains itself`)
    aliased += size
    if (aliased > MOST_ALIASED_NODES) {
      throw report.fail(offset, `aliases blow this document up to more than ${MOST_ALIASED_NODES} nodes`)
    }
    aliases.set(alias, target)
    return size
  }

  sizeOf(document.contents)
}

function reportDuplicates(map: YAMLMap, report: SurveyReport): void {
  const seen = new Set<string>()
  for (const pair of map.items) {
    if (!isScalar(pair.key) || isMergeKey(pair)) continue
    const key = String(pair.key.value)
    if (seen.has(key)) report.duplicate(offsetOf(pair.key), key)
    seen.add(key)
  }
}
