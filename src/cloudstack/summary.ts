import type { Registered } from './register.ts'
import type { ClusterReport } from './upgrade.ts'

/**
 * Text from elsewhere as Markdown shows it literally, in a table too. An underscore inside a word needs no escape, and
 * the command line prints the same text.
 */
export function escaped(text: string): string {
  return text.replace(/\s+/g, ' ').replace(/[\\`*[\]<>#|~@&$]|(?<!\w)_|_(?!\w)/g, '\\$&')
}

/** The run as Markdown: what was registered, what became of each cluster, and what a human has to do. */
export function summaryOf(
  registered: readonly Registered[],
  reports: readonly ClusterReport[],
  failures: readonly string[],
): string {
  const warnings = reports.flatMap(({ warning }) => (warning === undefined ? [] : [warning]))
  return [
    ...list('Needs your attention', [...failures, ...warnings]),
    ...table(
      'Kubernetes version in CloudStack',
      ['Zone', 'Version', 'Id', 'Result'],
      registered.map(({ zone, name, id, outcome }) => [zone?.name ?? 'all zones', name, id ?? '', outcome]),
    ),
    ...table(
      'Clusters',
      ['Cluster', 'From', 'To', 'Result', 'Autoscaler before', 'Autoscaler after', 'Note'],
      reports.map((report) => [
        report.cluster,
        report.from,
        report.to,
        report.result,
        report.autoscalerBefore,
        report.autoscalerAfter,
        report.note,
      ]),
    ),
  ].join('\n')
}

function list(title: string, items: readonly string[]): readonly string[] {
  return items.length === 0 ? [] : [`### ${title}`, '', ...items.map((item) => `- ${escaped(item)}`), '']
}

function table(
  title: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  if (rows.length === 0) return []
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [
    `### ${title}`,
    '',
    line(head),
    line(head.map(() => '---')),
    ...rows.map((row) => line(row.map(escaped))),
    '',
  ]
}
