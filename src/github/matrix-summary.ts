import type { Matrix } from '../matrix/plan.ts'
import { cell, table } from './summary.ts'

/** A matrix as Markdown: what is built, what is skipped and why. Pure. */
export function matrixSummary({ include, skipped }: Matrix): string {
  return [
    `## ${include.length === 0 ? 'Nothing to build' : `To build: ${include.length}`}`,
    '',
    ...table(
      ['Kubernetes', 'Architecture', ''],
      [
        ...include.map((job) => [cell(job['kubernetes-version']), cell(job.arch), 'built']),
        ...skipped.map(({ version, arch, reason }) => [
          cell(version),
          cell(arch),
          cell(`skipped: ${reason}`),
        ]),
      ],
    ),
  ].join('\n')
}
