import { formatReward, formatShare } from '@osmosis/eval'
import type { Agreement } from '@osmosis/models'

import { outputWidth, packed, withCommand } from '../../command/terminal-text.ts'
import type { RubricFlags } from '../rubric.ts'
import type { AnswerSource, JudgedRow } from './answer-rows.ts'

/** The scores of all answers. */
export interface RubricResult extends Pick<AnswerSource, 'passThreshold' | 'show'> {
  readonly model: string
  readonly rows: readonly JudgedRow[]
  /** Null without human verdicts. */
  readonly agreement: Agreement | null
}

/** The scores as a table or as JSON. */
export function rubricReport(result: RubricResult, { json }: Pick<RubricFlags, 'json'>): string {
  return json === true ? JSON.stringify(toDocument(result), null, 2) : toText(result)
}

interface Figures {
  readonly scored: number
  readonly mean: number | null
  readonly std: number | null
  readonly min: number | null
  readonly max: number | null
}

function figuresOf(rows: readonly JudgedRow[]): Figures {
  const scores = rows.flatMap(({ scored }) => scored?.score ?? [])
  if (scores.length === 0) return { scored: 0, mean: null, std: null, min: null, max: null }
  const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length
  const squares = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0)
  const std = scores.length < 2 ? null : Math.sqrt(squares / (scores.length - 1))
  return { scored: scores.length, mean, std, min: Math.min(...scores), max: Math.max(...scores) }
}

function toDocument(result: RubricResult): object {
  const { model, rows, passThreshold, agreement } = result
  return {
    model,
    ...figuresOf(rows),
    answers: rows.length,
    pass_threshold: passThreshold,
    agreement: agreement && {
      answers: agreement.answers,
      accuracy: agreement.accuracy,
      kappa: agreement.kappa,
      both_pass: agreement.bothPass,
      both_fail: agreement.bothFail,
      only_judge_passes: agreement.onlyJudgePasses,
      only_people_pass: agreement.onlyPeoplePass,
      disagreements: disagreements(result).map(({ row }) => row.label),
    },
    rows: rows.map(({ row, scored, error }) => ({
      label: row.label,
      score: scored?.score ?? null,
      explanation: scored?.explanation ?? null,
      votes: scored?.votes ?? [],
      error,
      people: row.people,
    })),
  }
}

function toText(result: RubricResult): string {
  const { model, rows, passThreshold, agreement } = result
  const { scored, mean, std, min, max } = figuresOf(rows)
  const table = [
    ['ANSWER', 'SCORE', 'VOTES', ...(agreement === null ? [] : ['PEOPLE']), 'WHY'],
    ...rows.map(({ row, scored: own, error }) => [
      row.label,
      own === null ? '-' : formatReward(own.score),
      own === null || own.votes.length < 2
        ? ''
        : own.votes.map((vote) => formatReward(vote.score)).join(' '),
      ...(agreement === null ? [] : [verdictText(row.people)]),
      (own?.explanation ?? `error: ${error}`).replaceAll(/\s+/g, ' '),
    ]),
  ]
  const widths = (table[0] ?? []).map((_head, column) =>
    Math.max(...table.map((cells) => cells[column]?.length ?? 0)),
  )
  const lines = table.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  const spread = std === null ? '' : `, standard deviation ${formatReward(std)}`
  lines.push('', `Judge      ${model}`)
  if (mean !== null && min !== null && max !== null) {
    const range = `(min ${formatReward(min)}, max ${formatReward(max)}, ${scored} of ${rows.length} scored)`
    lines.push(`Score      ${formatReward(mean)}${spread}  ${range}`)
  }
  if (agreement !== null) {
    const { answers, accuracy, kappa, bothPass, bothFail } = agreement
    const { onlyJudgePasses, onlyPeoplePass } = agreement
    const beyond =
      kappa === null
        ? "Cohen's kappa is not defined: all verdicts are equal"
        : `Cohen's kappa ${kappa.toFixed(2)}`
    lines.push(
      `Agreement  ${formatShare(accuracy)} of ${answers} answers, ${beyond}`,
      `           both pass ${bothPass}, both fail ${bothFail}, only the judge passes ${onlyJudgePasses}, only people pass ${onlyPeoplePass} (pass: ${formatReward(passThreshold)} or more)`,
      ...disagreementLines(result),
    )
  }
  return lines.join('\n')
}

function verdictText(people: boolean | null): string {
  return people === null ? '' : people ? 'pass' : 'fail'
}

/** The answers on which the judge and people disagree. */
function disagreements({ rows, passThreshold }: RubricResult): JudgedRow[] {
  return rows.filter(
    ({ row: { people }, scored }) =>
      scored !== null && people !== null && scored.score >= passThreshold !== people,
  )
}

/** Their labels, and the command that shows the first one. */
function disagreementLines(result: RubricResult): string[] {
  const labels = disagreements(result).map(({ row }) => row.label)
  const [first] = labels
  if (first === undefined) return []
  const [line = '', ...more] = packed(labels, ', ', outputWidth() - 11)
  const { show } = result
  return [
    `Disagree   ${line}`,
    ...more.map((part) => `           ${part}`),
    ...(show === undefined ? [] : withCommand('Read one  ', [...show, first])),
  ]
}
