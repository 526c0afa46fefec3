import { formatCount, formatDuration, formatShare, trainingWriter } from '@osmosis/eval'
import {
  type AlarmGroup,
  alarmGroups,
  behaviourChange,
  driftText,
  rowVerdict,
  type RowHistory,
  type StepRecord,
  type TrainingRecord,
} from '@osmosis/eval/analysis'

import {
  commandLines,
  onOneLine,
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
  return [
    `${styled('bold', name)}  ${styled(stateColours[state], state)} · ${formatCount(steps.length)}${planned} steps`,
    ...facts.map(([label, text]) => {
      const lines = wrapped(text, width - 10).join(`\n${' '.repeat(10)}`)
      return `${label.padEnd(10)}${lines}`
    }),
    ...(shown.length === 0 ? [] : ['', ...stepLines(shown, width)]),
    ...(left === 0
      ? []
      : [styled('dim', `${formatCount(left)} steps in between: --details shows them`)]),
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

/** A row of the dataset over the steps of a training. */
export function rowReport(name: string, history: RowHistory): string {
  const rows = history.steps.map(({ step, mean, passed, ended }) => [
    String(step),
    `${passed} of ${ended}`,
    mean === null ? 'none' : mean.toFixed(3),
    barOf(mean),
  ])
  return [
    `${styled('bold', `Row ${history.row}`)} of ${name}: ${rowVerdict(history)}`,
    ...(history.question === '' ? [] : [`${'Question'.padEnd(10)}${onOneLine(history.question)}`]),
    ...Object.entries(history.facets).map(([facet, value]) => `${facet.padEnd(10)}${value}`),
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
  return tableLines([head, ...rows], { right: [0, 1, 3, 4, 5, 6, 7, 8, 9, 10], width })
}

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
