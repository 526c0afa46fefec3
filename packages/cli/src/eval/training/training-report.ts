import { trainingWriter } from '@osmosis/eval'
import {
  formatCount,
  formatDuration,
  formatReward,
  formatShare,
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
  type Block,
  dim,
  heading,
  indented,
  look,
  type Report,
  type Section,
} from '../../command/output/report.ts'
import type { Cell } from '../../command/terminal-text.ts'
import type { FoundTraining } from './find-training.ts'

interface ReportOptions {
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
  { details, command }: ReportOptions,
): Report {
  const steps = records.filter((record) => record.kind === 'step')
  const state = trainingState(location, records)
  const started = records.findLast((record) => record.kind === 'start')
  const planned = started?.steps == null ? '' : ` of ${formatCount(started.steps)}`
  const shown = details ? steps : spreadOver(steps, fewSteps)
  const left = steps.length - shown.length
  const alarmed = steps.findLast((step) => step.alarms.length > 0) ?? steps.at(-1)
  return [
    [
      {
        facts: [
          [heading(name), '  ', look(state, stateColours[state])],
          `${formatCount(steps.length)}${planned} steps`,
        ],
      },
      ...aboutTraining(records).map(factBlock),
    ],
    [
      stepTable(shown),
      left === 0 ? undefined : dim(`${formatCount(left)} steps in between: --details shows them`),
    ],
    metricSection(records),
    alarmSection(alarmGroups(records)),
    [
      'In the browser',
      { command: ['eval', 'view', command] },
      ...(alarmed === undefined
        ? []
        : [
            `The rollouts of step ${alarmed.step}`,
            { command: ['eval', 'show', `${command}/${alarmed.run}`] },
            'One row over the steps',
            { command: ['eval', 'show', command, String(alarmed.rows[0] ?? 0)] },
          ]),
    ],
  ]
}

type Fact = readonly [label: string, text: string]

/** What is trained on what, and what came out of it so far. */
function aboutTraining(records: readonly TrainingRecord[]): Fact[] {
  const started = records.findLast((record) => record.kind === 'start')
  const last = records.at(-1)
  const change = behaviourChange(records)
  const rewards = heldOutRewards(records)
  const known: (Fact | undefined)[] = [
    started && ['Model', started.model],
    started && [
      'Rollout',
      started.dataset === null ? started.rollout : `${started.rollout} on ${started.dataset}`,
    ],
    started?.rowsPerStep == null
      ? undefined
      : ['Step', `${started.rowsPerStep} rows × ${started.attempts} attempts`],
    rewards.length === 0 ? undefined : ['Held out', `reward ${rewards.join(' → ')}`],
    change === null ? undefined : ['Now', change],
    last?.kind === 'end' ? ['Ended', last.reason] : undefined,
  ]
  return known.filter((fact) => fact !== undefined)
}

/** A fact behind its label. */
function factBlock([label, text]: Fact): Block {
  return { facts: [text], head: `${label.padEnd(9)} ` }
}

/** What graders set besides rewards: at the first step, and at the last. */
function metricSection(records: readonly TrainingRecord[]): Section {
  const rows = trainingSeries(records).flatMap(({ key, label, points }) => {
    const [first, last] = [points[0], points.at(-1)]
    if (!key.startsWith('metric:') || first === undefined || last === undefined) return []
    return [[formatReward(first.value), formatReward(last.value), label.replace(/^Metric /, '')]]
  })
  return [{ head: ['First', 'Last', 'Metric'], table: rows, right: [0, 1], cutsLast: true }]
}

/** A row of the dataset over the steps of a training. */
export function rowReport(name: string, history: RowHistory): Report {
  const { row, question, facets, steps } = history
  const rows = steps.map(({ step, mean, passed, ended }) => [
    String(step),
    `${passed} of ${ended}`,
    mean === null ? 'none' : mean.toFixed(3),
    barOf(mean),
  ])
  return [
    [
      [heading(`Row ${row}`), ` of ${name}: ${rowVerdict(history)}`],
      question === '' ? undefined : factBlock(['Question', question]),
      ...Object.entries(facets).map(factBlock),
    ],
    [{ head: ['Step', 'Passed', 'Reward', ''], table: rows, right: [0, 1, 2] }],
  ]
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

function stepTable(steps: readonly StepRecord[]): Block {
  const head = [
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
  ]
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
    look(
      [...(phase === 'warm_start' ? ['warm start'] : []), ...alarms.map(() => '!')].join(' '),
      'yellow',
    ),
  ])
  return {
    head,
    table: rows,
    right: [0, 1, 3, 4, 5, 6, 7, 8, 9, 10],
    cutsLast: true,
    lessImportant,
  }
}

/** The columns that a narrow terminal has no room for, in the order in which they go: first the bars, then the tools. */
const lessImportant = [2, 9, 8, 10, 7, 5, 6] as const

const barWidth = 10

/** A reward from 0 to 1 as a bar. */
function barOf(value: number | null): string {
  const eighths = Math.round(Math.min(1, Math.max(0, value ?? 0)) * barWidth * 8)
  const part = eighths % 8 === 0 ? '' : String.fromCodePoint(0x2590 - (eighths % 8))
  return `${'█'.repeat(Math.floor(eighths / 8))}${part}`
}

/** The newest first: what is wrong now matters most. */
function alarmSection(alarms: readonly AlarmGroup[]): Section {
  if (alarms.length === 0) return []
  const title = alarms.length === 1 ? '1 alarm' : `${alarms.length} alarms, the newest first`
  return [
    { text: title, format: 'yellow' },
    ...alarms.map(({ steps, text }) => indented(`${steps}: ${text}`)),
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
