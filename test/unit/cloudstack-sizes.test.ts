import { describe, expect, it } from 'vitest'
import type { Sizes } from '../../src/cloudstack/model.ts'
import { nudged, rangeOf } from '../../src/cloudstack/sizes.ts'

describe('sizes moved by one', () => {
  it.each([
    [{ min: 2, max: 5 }, { min: 3, max: 5 }, 'the minimum goes up where it can'],
    [{ min: 1, max: 3 }, { min: 2, max: 3 }, 'also from one'],
    [{ min: 4, max: 5 }, { min: 3, max: 5 }, 'else down'],
    [{ min: 1, max: 2 }, { min: 1, max: 3 }, 'else the maximum goes up'],
  ])('%o becomes %o: %s', (sizes, moved) => {
    expect(nudged(sizes)).toEqual(moved)
  })

  it.each([
    { min: 0, max: 3 },
    { min: 3, max: 3 },
    { min: 4, max: 2 },
  ])('%o is not touched, since CloudStack would not take it back', (sizes) => {
    expect(nudged(sizes)).toBeUndefined()
  })

  it('always leads to a change of exactly one that CloudStack takes, and never below the old maximum', () => {
    for (const sizes of every(12)) {
      const moved = nudged(sizes)
      expect(moved, rangeOf(sizes)).toBeDefined()
      if (moved === undefined) continue
      expect(Math.abs(moved.min - sizes.min) + Math.abs(moved.max - sizes.max)).toBe(1)
      expect(moved.min).toBeGreaterThanOrEqual(1)
      expect(moved.max).toBeGreaterThan(moved.min)
      // Whoever may set the moved sizes may set the old ones: the way back cannot meet the account's limit.
      expect(moved.max).toBeGreaterThanOrEqual(sizes.max)
    }
  })
})

function* every(limit: number): Generator<Sizes> {
  for (let min = 1; min < limit; min++) for (let max = min + 1; max <= limit; max++) yield { min, max }
}
