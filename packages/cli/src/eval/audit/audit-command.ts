import { userInfo } from 'node:os'

import { type AuditFinding, auditRun, type AuditVerdict, auditVerdicts } from '@osmosis/eval'
import { formatCount, formatQuantity } from '@osmosis/eval/analysis'

import { gateFailedCode } from '../../command/exit-codes.ts'
import {
  dim,
  heading,
  look,
  nextCommand,
  printReport,
  type Report,
} from '../../command/output/report.ts'
import { invalid } from '../../command/wrong-use.ts'
import type { EvalAuditFlags } from '../audit.ts'
import { findRun, openShownRun, runsRoot, type ShownRun } from '../show/shown-run.ts'

/**
 * Shows the findings of a run, after recording verdicts if any are given. Resolves with the exit code: 3 with
 * `--fail-on-open` while a finding has no verdict, else 0.
 *
 * @throws OsmosisError with code `invalid_config` for a run or finding that does not exist, and for a
 * verdict without a reason; `damaged_run`, `storage_error`
 */
export async function evalAuditCommand(
  name: string | undefined,
  flags: EvalAuditFlags,
): Promise<number> {
  const given = flags.verdict ?? []
  if (given.length > 0 && (flags.because ?? '').trim() === '') {
    throw invalid("A verdict needs a reason: add --because '<reason>'.")
  }
  const run = await openShownRun(await findRun(name ?? 'latest', await runsRoot(flags.output)))
  let findings = await audit(run)
  if (given.length > 0) {
    const decided = given.flatMap((text) => toVerdicts(text, findings, flags))
    await run.reader.addVerdicts(decided)
    findings = await audit(run)
  }
  printReport(auditReport({ run, findings }))
  const isOpen = findings.some(({ verdict }) => verdict === null)
  return flags.failOnOpen === true && isOpen ? gateFailedCode : 0
}

async function audit({ reader, table, events }: ShownRun): Promise<AuditFinding[]> {
  return auditRun(reader, { table, events })
}

/** `12.1:no-tools=hacked` is about one finding, `no-tools=earned` about all open ones of a check. */
function toVerdicts(
  given: string,
  findings: readonly AuditFinding[],
  { because = '', by = userName() }: EvalAuditFlags,
): Omit<AuditVerdict, 'at'>[] {
  const at = given.lastIndexOf('=')
  const [id, word] = [given.slice(0, Math.max(at, 0)), given.slice(at + 1)]
  const verdict = auditVerdicts.find((known) => known === word)
  if (verdict === undefined) {
    throw invalid(
      `A verdict is <finding>=earned, <finding>=hacked or <finding>=unsure, such as 12.1:no-tools=hacked, got ${given}.`,
    )
  }
  const meant = findings.filter(
    (one) => one.id === id || (one.check === id && one.verdict === null),
  )
  if (meant.length === 0) {
    const known = findings.slice(0, 8).map((one) => one.id)
    throw invalid(
      known.length === 0
        ? `${id} is not a finding: the run has none.`
        : `${id} is not a finding: there are ${known.join(', ')}${findings.length > 8 ? ' and more' : ''}.`,
    )
  }
  if (by.trim() === '') throw invalid('A verdict needs the name of its reviewer: add --by <name>.')
  return meant.map(({ event, check, value }) => ({
    source_row_index: event.source_row_index,
    run_index: event.run_index,
    rollout_id: event.rollout_id,
    check,
    value,
    verdict,
    because: because.trim(),
    by: by.trim(),
  }))
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In a container the user may have no entry.
    return ''
  }
}

/** A run and its findings. */
interface AuditedRun {
  readonly run: ShownRun
  readonly findings: readonly AuditFinding[]
}

/** The findings as a table, open ones first, and the commands that read and decide the first open one. */
function auditReport(audited: AuditedRun): Report {
  const { run, findings } = audited
  const open = openOf(findings)
  const rows = [
    ...open.map(({ id, evidence }) => [id, look('open', 'yellow'), evidence]),
    ...findings.flatMap(({ id, verdict }) =>
      verdict === null ? [] : [[id, verdict.verdict, dim(`${verdict.because} (${verdict.by})`)]],
    ),
  ]
  const [first] = open
  const decide = ['--verdict', `${first?.id}=hacked`, '--because', '<reason>']
  return [
    [
      { facts: [heading(run.name), summary(audited)], separator: '  ' },
      { head: [], table: rows, cutsLast: true },
    ],
    first === undefined
      ? []
      : [
          nextCommand('Read one', ['eval', 'show', run.command, rolloutOf(first)]),
          nextCommand('Decide', ['eval', 'audit', run.command, ...decide]),
        ],
  ]
}

/** `3 open findings and 1 decided, in 14 passed rollouts`. */
function summary({ run, findings }: AuditedRun): string {
  const open = openOf(findings).length
  const passes = formatQuantity(passesOf(run), 'passed rollout')
  if (findings.length === 0) return `no findings in ${passes}`
  const decided = findings.length - open
  return `${formatQuantity(open, 'open finding')} and ${formatCount(decided)} decided, in ${passes}`
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
