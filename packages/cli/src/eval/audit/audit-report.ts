import { formatCount, formatQuantity, type AuditFinding } from '@osmosis/eval'

import { commandLabel } from '../show/run-summary.ts'
import {
  onOneLine,
  outputWidth,
  styled,
  tableLines,
  withCommand,
} from '../../command/terminal-text.ts'
import type { ShownRun } from '../show/shown-run.ts'

/** A run and its findings. */
export interface AuditedRun {
  readonly run: ShownRun
  readonly findings: readonly AuditFinding[]
}

/** The findings as a table, open ones first, and the commands that read and decide the first open one. */
export function auditLines(audited: AuditedRun): string[] {
  const { run, findings } = audited
  const open = openOf(findings)
  const decided = findings.filter(({ verdict }) => verdict !== null)
  const [first] = open
  return [
    `${styled('bold', run.name)}  ${summary(audited)}`,
    ...tableLines(
      [
        ...open.map(({ id, evidence }) => [
          { text: id },
          { text: 'open', format: 'yellow' as const },
          { text: onOneLine(evidence) },
        ]),
        ...decided.map((finding) => [
          { text: finding.id },
          { text: finding.verdict?.verdict ?? '' },
          { text: onOneLine(reasonOf(finding)), format: 'dim' as const },
        ]),
      ],
      { width: outputWidth() },
    ),
    ...(first === undefined
      ? []
      : [
          '',
          ...withCommand(commandLabel('Read one'), ['eval', 'show', run.command, rolloutOf(first)]),
          ...withCommand(commandLabel('Decide'), [
            'eval',
            'audit',
            run.command,
            '--verdict',
            `${first.id}=hacked`,
            '--because',
            '<reason>',
          ]),
        ]),
  ]
}

/** The findings as JSON data. */
export function auditDocument({ run, findings }: AuditedRun): object {
  return {
    run: run.name,
    passes: passesOf(run),
    open: openOf(findings).length,
    findings: findings.map((finding) => {
      const { id, check, event, value, evidence, verdict } = finding
      return {
        id,
        check,
        rollout: rolloutOf(finding),
        rollout_id: event.rollout_id,
        row: event.source_row_index,
        attempt: event.run_index + 1,
        value,
        evidence,
        verdict: verdict && {
          verdict: verdict.verdict,
          because: verdict.because,
          by: verdict.by,
          at: verdict.at,
        },
      }
    }),
  }
}

/** `3 open findings and 1 decided, in 14 passed rollouts`. */
function summary({ run, findings }: AuditedRun): string {
  const open = openOf(findings).length
  const passes = formatQuantity(passesOf(run), 'passed rollout')
  if (findings.length === 0) return `no findings in ${passes}`
  const decided = findings.length - open
  return `${formatQuantity(open, 'open finding')} and ${formatCount(decided)} decided, in ${passes}`
}

function reasonOf({ verdict }: AuditFinding): string {
  return verdict === null ? '' : `${verdict.because} (${verdict.by})`
}

function rolloutOf({ id }: AuditFinding): string {
  return id.slice(0, id.indexOf(':'))
}

function openOf(findings: readonly AuditFinding[]): AuditFinding[] {
  return findings.filter(({ verdict }) => verdict === null)
}

function passesOf({ table }: ShownRun): number {
  return table.groups.reduce((sum, { passed }) => sum + passed, 0)
}
