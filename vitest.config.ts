import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Integration tests start registries and containerds: two files at once fill a small machine.
    maxWorkers: 2,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    reporters: ['default', './test/count-reporter.ts'],
  },
})
