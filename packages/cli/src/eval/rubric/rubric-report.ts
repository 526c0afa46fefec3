import { formatReward, formatShare } from '@osmosis/eval'

import type { JudgedRow, RubricResult } from './score-answers.ts'
import type { RubricFlags } from '../rubric.ts'

/** What a judge found, as a table for people or as JSON. */
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

function toDocument({ model, rows, passThreshold, agreement }: RubricResult): object {
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
    },
    rows: rows.map(({ row, scored, error, people }) => ({
      label: row.label,
      score: scored?.score ?? null,
      explanation: scored?.explanation ?? null,
      votes: scored?.votes ?? [],
      error,
      people,
    })),
  }
}

function toText(result: RubricResult): string {
  const { model, rows, passThreshold, agreement } = result
  const { scored, mean, std, min, max } = figuresOf(rows)
  const table = [
    ['ANSWER', 'SCORE', 'VOTES', ...(agreement === null ? [] : ['PEOPLE']), 'WHY'],
    ...rows.map(({ row, scored: own, error, people }) => [
      row.label,
      own === null ? '-' : formatReward(own.score),
      own === null || own.votes.length < 2
        ? ''
        : own.votes.map((vote) => formatReward(vote.score)).join(' '),
      ...(agreement === null ? [] : [people === null ? '' : people ? 'pass' : 'fail']),
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
    const { answers, accuracy, kappa, onlyJudgePasses, onlyPeoplePass } = agreement
    const beyond =
      kappa === null
        ? "Cohen's kappa is not defined: all are of one kind"
        : `Cohen's kappa ${kappa.toFixed(2)}`
    lines.push(
      `Agreement  ${formatShare(accuracy)} of ${answers} answers, ${beyond}`,
      `           only the judge passes ${onlyJudgePasses}, only people pass ${onlyPeoplePass} (pass: ${formatReward(passThreshold)} or more)`,
    )
  }
  return lines.join('\n')
}
