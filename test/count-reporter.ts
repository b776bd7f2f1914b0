import type { Reporter, TestModule } from 'vitest/node'

/** Ends a run with one plain line that people and CI can read: `12 passed, 0 failed, 1 skipped`. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const tests = modules.flatMap((module) =>
      [...module.children.allTests()].map((test) => test.result().state),
    )
    const count = (state: string): number => tests.filter((found) => found === state).length
    // A file that cannot be loaded, or an error outside of any test, has no test to fail.
    const broken = modules.filter((module) => module.errors().length > 0).length + errors.length
    process.on('exit', () => {
      console.log(
        `${count('passed')} passed, ${count('failed') + broken} failed, ${count('skipped')} skipped`,
      )
    })
  }
}
