import { stripVTControlCharacters } from 'node:util'

import {
  formatCount,
  formatDuration,
  formatReward,
  formatShare,
  trainingWriter,
} from '@osmosis/eval'
import {
  type AlarmGroup,
  alarmGroups,
  behaviourChange,
  driftText,
  rowVerdict,
  trainingSeries,
  type RowHistory,
  type StepRecord,
  type TrainingRecord,
} from '@osmosis/eval/analysis'

import {
  columnsOf,
  commandLines,
  onOneLine,
  packed,
  styled,
  tableLines,
  wrapped,
  type Cell,
} from '../../command/terminal-text.ts'
import type { FoundTraining } from './find-training.ts'

interface ReportOptions {
  readonly width: number
  /** Every step instead of some. */
  readonly details: boolean
  /** The name of the training in commands. */
  readonly command: string
}

/** Shown of a long training. */
const fewSteps = 20

/** The result of a training: its state, the curve of its reward, its alarms, and the commands that come next. */
export function trainingReport(
  { name, location }: FoundTraining,
  records: readonly TrainingRecord[],
  { width, details, command }: ReportOptions,
): string {
  const started = records.findLast((record) => record.kind === 'start')
  const steps = records.filter((record) => record.kind === 'step')
  const last = records.at(-1)
  const state = trainingState(location, records)
  const planned = started?.steps == null ? '' : ` of ${formatCount(started.steps)}`
  const change = behaviourChange(records)
  const facts: [string, string][] = [
    ...(started === undefined
      ? []
      : ([
          ['Model', started.model],
          [
            'Rollout',
            `${started.rollout}${started.dataset === null ? '' : ` on ${started.dataset}`}`,
          ],
          ...(started.rowsPerStep === null
            ? []
            : ([['Step', `${started.rowsPerStep} rows × ${started.attempts} attempts`]] satisfies [
                string,
                string,
              ][])),
        ] satisfies [string, string][])),
    ...heldOutFact(records),
    ...(change === null ? [] : ([['Now', change]] satisfies [string, string][])),
    ...(last?.kind === 'end' ? ([['Ended', last.reason]] satisfies [string, string][]) : []),
  ]
  const shown = details ? steps : spreadOver(steps, fewSteps)
  const left = steps.length - shown.length
  const alarms = alarmGroups(records)
  const alarmed = steps.findLast((step) => step.alarms.length > 0) ?? steps.at(-1)
  const [title = '', ...below] = packed(
    [`${name}  ${state}`, `${formatCount(steps.length)}${planned} steps`],
    ' · ',
    width,
  )
  const styledName = `${styled('bold', name)}  ${styled(stateColours[state], state)}`
  return [
    title.replace(`${name}  ${state}`, () => styledName),
    ...below,
    ...facts.flatMap(([label, text]) => factLines(label, text, width)),
    ...(shown.length === 0 ? [] : ['', ...stepLines(shown, width)]),
    ...(left === 0
      ? []
      : [styled('dim', `${formatCount(left)} steps in between: --details shows them`)]),
    ...metricLines(records, width),
    ...(alarms.length === 0 ? [] : ['', ...alarmLines(alarms, width)]),
    '',
    'In the browser',
    ...commandLines(['eval', 'view', command]),
    ...(alarmed === undefined
      ? []
      : [
          `The rollouts of step ${alarmed.step}`,
          ...commandLines(['eval', 'show', `${command}/${alarmed.run}`]),
          'One row over the steps',
          ...commandLines(['eval', 'show', command, String(alarmed.rows[0] ?? 0)]),
        ]),
  ].join('\n')
}

/** A fact behind its label. */
function factLines(label: string, text: string, width: number): string[] {
  const head = `${onOneLine(label).padEnd(9)} `
  const column = Math.min(columnsOf(head), 24)
  const lines = wrapped(`${' '.repeat(column)}${onOneLine(text)}`, width)
  const [first = '', ...more] = lines
  return head.length > column ? [head.trimEnd(), ...lines] : [head + first.slice(column), ...more]
}

/** What graders set besides rewards: at the first step, and at the last. */
function metricLines(records: readonly TrainingRecord[], width: number): string[] {
  const rows = trainingSeries(records).flatMap(({ key, label, points }) => {
    const [first, last] = [points[0], points.at(-1)]
    if (!key.startsWith('metric:') || first === undefined || last === undefined) return []
    const name = onOneLine(label.replace(/^Metric /, ''))
    return [[formatReward(first.value), formatReward(last.value), name]]
  })
  if (rows.length === 0) return []
  return [
    '',
    ...tableLines([heads(['First', 'Last', 'Metric']), ...rows], { right: [0, 1], width }),
  ]
}

/** A row of the dataset over the steps of a training. */
export function rowReport(name: string, history: RowHistory, width: number): string {
  const rows = history.steps.map(({ step, mean, passed, ended }) => [
    String(step),
    `${passed} of ${ended}`,
    mean === null ? 'none' : mean.toFixed(3),
    barOf(mean),
  ])
  const [title = '', ...below] = wrapped(
    `Row ${history.row} of ${name}: ${rowVerdict(history)}`,
    width,
  )
  const row = `Row ${history.row}`
  const facts: [string, string][] = [
    ...(history.question === ''
      ? []
      : ([['Question', history.question]] satisfies [string, string][])),
    ...Object.entries(history.facets),
  ]
  return [
    title.replace(row, () => styled('bold', row)),
    ...below,
    ...facts.flatMap(([label, text]) => factLines(label, text, width)),
    '',
    ...tableLines([heads(['Step', 'Passed', 'Reward', '']), ...rows], { right: [0, 1, 2] }),
  ].join('\n')
}

/** How far a training is. */
export function trainingState(
  location: string,
  records: readonly TrainingRecord[],
): keyof typeof stateColours {
  if (trainingWriter(location) !== null) return 'running'
  return records.at(-1)?.kind === 'end' ? 'finished' : 'interrupted'
}

/** How the states of a training look. */
export const stateColours = { finished: 'green', running: 'cyan', interrupted: 'yellow' } as const

/** The rewards of the held-out rows, in order. */
export function heldOutRewards(records: readonly TrainingRecord[]): string[] {
  return records.flatMap((record) =>
    record.kind === 'evaluation' ? [record.rollouts.reward?.toFixed(3) ?? 'none'] : [],
  )
}

function heldOutFact(records: readonly TrainingRecord[]): [string, string][] {
  const rewards = heldOutRewards(records)
  return rewards.length === 0 ? [] : [['Held out', `reward ${rewards.join(' → ')}`]]
}

function stepLines(steps: readonly StepRecord[], width: number): string[] {
  const head = heads([
    'Step',
    'Reward',
    '',
    'Passed',
    'Signal',
    'Drift',
    'Entropy',
    'Cut off',
    'Tokens',
    'Tools',
    'Time',
    '',
  ])
  const rows = steps.map(({ step, phase, rollouts, batch, update, alarms }): (Cell | string)[] => [
    String(step),
    rollouts.reward?.toFixed(3) ?? 'none',
    barOf(rollouts.reward),
    formatShare(rollouts.passRate),
    `${batch.groupsWithSignal}/${batch.groups}`,
    update?.driftMean == null ? '' : driftText(update.driftMean),
    update?.entropy == null ? '' : update.entropy.toFixed(2),
    formatShare(rollouts.cutOff),
    rollouts.answerTokens.toFixed(0),
    rollouts.toolCalls.toFixed(1),
    formatDuration(1000 * (rollouts.seconds + (update?.seconds ?? 0))),
    {
      text: [...(phase === 'warm_start' ? ['warm start'] : []), ...alarms.map(() => '!')].join(' '),
      format: 'yellow',
    },
  ])
  let table: readonly (readonly (Cell | string)[])[] = [head, ...rows]
  const drawn = (): string[] => tableLines(table, { right: [0, 1, 3, 4, 5, 6, 7, 8, 9, 10], width })
  let lines = drawn()
  for (const column of lessImportant) {
    if (lines.every((line) => columnsOf(stripVTControlCharacters(line)) <= width)) break
    // Columns without texts are left out.
    table = table.map((row) => row.with(column, ''))
    lines = drawn()
  }
  return lines
}

/** The columns that a narrow terminal has no room for, in the order in which they go: first the bars, then the tools. */
const lessImportant = [2, 9, 8, 10, 7, 5, 6] as const

function heads(texts: readonly string[]): Cell[] {
  return texts.map((text) => ({ text, format: 'bold' }))
}

const barWidth = 10

/** A reward from 0 to 1 as a bar. */
function barOf(value: number | null): string {
  const eighths = Math.round(Math.min(1, Math.max(0, value ?? 0)) * barWidth * 8)
  const part = eighths % 8 === 0 ? '' : String.fromCodePoint(0x2590 - (eighths % 8))
  return `${'█'.repeat(Math.floor(eighths / 8))}${part}`
}

/** The newest first: what is wrong now matters most. */
function alarmLines(alarms: readonly AlarmGroup[], width: number): string[] {
  return [
    styled('yellow', alarms.length === 1 ? '1 alarm' : `${alarms.length} alarms, the newest first`),
    ...alarms.flatMap(({ steps, text }) => wrapped(`  ${steps}: ${text}`, width)),
  ]
}

/** The first, the last, and others at equal distances. */
function spreadOver<T>(list: readonly T[], count: number): readonly T[] {
  if (list.length <= count) return list
  return Array.from({ length: count }, (_, at) => {
    const place = Math.round((at * (list.length - 1)) / (count - 1))
    return list[place] as T
  })
}
