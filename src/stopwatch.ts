/** When a stage ran, in milliseconds since the build began. */
export interface StageTime {
  readonly name: string
  readonly start: number
  readonly end: number
}

/** Measures the stages of one build, which overlap. */
export class Stopwatch {
  readonly #began = performance.now()
  readonly #stages: StageTime[] = []

  /** Measures a stage from now until it settles. */
  async time<T>(name: string, stage: Promise<T>): Promise<T> {
    const start = performance.now() - this.#began
    try {
      return await stage
    } finally {
      this.#stages.push({ name, start, end: performance.now() - this.#began })
    }
  }

  /** The stages that have ended, in the order in which they began. */
  get stages(): readonly StageTime[] {
    return this.#stages.toSorted((a, b) => a.start - b.start)
  }
}
