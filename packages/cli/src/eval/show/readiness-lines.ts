import { formatCount, formatQuantity, openRunFolder } from '@osmosis/eval'
import {
  frameworkOf,
  rewrittenSteps,
  rolloutName,
  trainingReadiness,
  type TrainingReadiness,
} from '@osmosis/eval/analysis'

import { onOneLine, styled, wrapped, commandLines } from '../../command/terminal-text.ts'
import { fewestRows, valueText } from './figure-text.ts'
import type { ShownModel } from './shown-run.ts'

/** One property of the run that matters for training. */
interface Remark {
  /** `bad`: nothing would be learned. `warn`: some rollouts are lost. `open`: not known yet. */
  readonly tone: 'ok' | 'bad' | 'warn' | 'open' | 'info'
  readonly text: string
  /** The filter line that shows the rollouts it is about. */
  readonly query?: string
}

const marks = {
  ok: styled('green', '✓'),
  bad: styled('red', '!'),
  warn: styled('yellow', '!'),
  open: '?',
  info: '·',
}

/** What a trainer would get from the rollouts of a run, each remark with the command that lists its rollouts. */
export async function readinessLines(
  run: ShownModel,
  { of, width }: { readonly of: string; readonly width: number },
): Promise<string[]> {
  const remarks = remarksOf(run, await historyBreaks(run))
  if (remarks.length === 0) return []
  return [
    `${styled('bold', `Ready to train${of}:`)} ${verdictOf(remarks)}`,
    ...remarks.flatMap(({ tone, text, query }) => {
      const [first = '', ...more] = wrapped(text, width - 2)
      const lines = [`${marks[tone]} ${first}`, ...more.map((line) => `  ${line}`)]
      if (query === undefined) return lines
      return [...lines, ...commandLines(['eval', 'show', run.command, '--filter', query])]
    }),
  ]
}

/** `yes`, `yes, with losses`, `no` or `not known`; undefined when no rollout has ended. */
export function readinessVerdict(run: ShownModel): string | undefined {
  const remarks = remarksOf(run, [])
  return remarks.length === 0 ? undefined : verdictOf(remarks)
}

function remarksOf(run: ShownModel, breaks: readonly HistoryBreak[]): Remark[] {
  const { table } = run
  const readiness = trainingReadiness(table)
  if (readiness.rollouts === 0) return []
  return [
    gradientRemark(readiness, run),
    rewardRemark(readiness, table.measure),
    ...callsRemark(readiness),
    // Rollouts without a model call have no conversation to check.
    ...(readiness.withoutCalls < readiness.rollouts
      ? [historyRemark(readiness, breaks), cutRemark(readiness)]
      : []),
    ...tokensRemark(readiness),
  ]
}

/** With one attempt per row it is not known which rows have a training signal. */
function verdictOf(remarks: readonly Remark[]): string {
  const tones = new Set(remarks.map(({ tone }) => tone))
  if (tones.has('bad')) return styled('red', 'no')
  if (tones.has('open')) return 'not known'
  return tones.has('warn') ? styled('yellow', 'yes, with losses') : styled('green', 'yes')
}

/** Also says how many rows would have a training signal in smaller groups. */
function gradientRemark(readiness: TrainingReadiness, { table }: ShownModel): Remark {
  const { gradient, smallerGroups } = readiness
  const { attempts } = table.document
  if (attempts < 2) {
    return {
      tone: 'open',
      text: 'With one attempt per row it is not known which rows have a training signal. Run it with --n 4 or more.',
    }
  }
  if (gradient.value === null) {
    return { tone: 'open', text: 'No row has two finished attempts yet.' }
  }
  const { never, always, flat } = table.kinds()
  const others = [
    ...(never > 0 ? [`${formatCount(never)} never ${never === 1 ? 'passes' : 'pass'}`] : []),
    ...(always > 0 ? [`${formatCount(always)} always ${always === 1 ? 'does' : 'do'}`] : []),
    ...(flat > 0 ? [`${formatCount(flat)} ${has(flat)} other equal rewards`] : []),
  ]
  const groups = smallerGroups
    .toReversed()
    .filter(({ value }) => value !== null)
    .map((one) => `${valueText(one, 'share')} of ${formatCount(one.k)}`)
  const smaller = groups.length === 0 ? '' : ` (${groups.join(', ')})`
  const rest = others.length === 0 ? '' : ` Of the other rows, ${others.join(', ')}.`
  const few = gradient.rows < fewestRows ? ` With this few rows the figure is rough.` : ''
  return {
    tone: gradient.value === 0 ? 'bad' : few === '' ? 'ok' : 'open',
    text:
      gradient.value === 0
        ? `No row has a training signal in groups of ${formatCount(attempts)}: nothing would be learned.${rest}`
        : `${valueText(gradient, 'share')} of ${formatQuantity(gradient.rows, 'row')} ${has(gradient.rows)} a training signal in groups of ${formatCount(attempts)}${smaller}.${rest}${few}`,
    ...(others.length === 0 ? {} : { query: '-is:signal' }),
  }
}

function rewardRemark({ withoutReward, rollouts }: TrainingReadiness, measure: string): Remark {
  const name = measure === 'reward' ? 'reward' : `score of ${onOneLine(measure)}`
  if (withoutReward === 0) return { tone: 'ok', text: `Every rollout has a ${name}.` }
  return {
    tone: withoutReward === rollouts ? 'bad' : 'warn',
    text: `${formatCount(withoutReward)} of ${formatQuantity(rollouts, 'rollout')} ${has(withoutReward)} no ${name}: trainers leave them out, and their groups are smaller.`,
    query: 'is:novalue',
  }
}

function callsRemark({ withoutCalls }: TrainingReadiness): Remark[] {
  if (withoutCalls === 0) return []
  const text = `${formatQuantity(withoutCalls, 'rollout')} never called the policy, so there is nothing to train. Does the agent use another model?`
  return [{ tone: 'bad', text, query: 'is:nocalls' }]
}

function historyRemark({ rewritten }: TrainingReadiness, breaks: readonly HistoryBreak[]): Remark {
  if (rewritten === 0) {
    return { tone: 'ok', text: 'Every call extends the conversation before it.' }
  }
  const places = breaks.map(({ sampleId, framework, rollouts, first }) => {
    const of = framework === null ? '' : ` (${onOneLine(framework)})`
    const step = first.step === null ? '' : ` at step ${first.step}`
    return `${onOneLine(sampleId)}${of} in ${formatCount(rollouts)}, first in ${first.rollout}${step}`
  })
  const where = places.length === 0 ? '' : ` ${places.join('; ')}.`
  return {
    tone: 'warn',
    text: `${formatQuantity(rewritten, 'rollout')} ${has(rewritten)} a call that does not extend the conversation before it, where trainers split or mask.${where} Causes are trimmed or summarised histories and agents that share a sample.`,
    query: 'is:rewritten',
  }
}

function cutRemark({ cut, rollouts }: TrainingReadiness): Remark {
  if (cut === 0) return { tone: 'ok', text: 'No answer is cut off.' }
  return {
    tone: 'warn',
    text: `${formatQuantity(cut, 'rollout')} of ${formatCount(rollouts)} ${has(cut)} an answer that is cut off (finish_reason length): allow more tokens, or let the grader score it as truncated.`,
    query: 'is:cut',
  }
}

/** None when the endpoint did not report token counts. */
function tokensRemark({ tokens }: TrainingReadiness): Remark[] {
  if (tokens.mean.value === null || tokens.p95 === null) return []
  const [mean, most] = [tokens.mean.value, tokens.p95].map((count) =>
    formatCount(Math.round(count)),
  )
  return [
    { tone: 'info', text: `${mean} tokens per rollout are trained, 95 % of them within ${most}.` },
  ]
}

function has(count: number): string {
  return count === 1 ? 'has' : 'have'
}

/** Where the model calls of one agent did not extend the conversation before them. */
interface HistoryBreak {
  /** The id of the sample, which is the name of its agent or session. */
  readonly sampleId: string
  /** The user agent of its model calls, such as `Agents/JavaScript 0.11.0`; null without one. */
  readonly framework: string | null
  readonly rollouts: number
  /** `12.1`, and the step in it; null where the answer is in no step. */
  readonly first: { readonly rollout: string; readonly step: number | null }
}

/** The first conversations are enough to say where it happens. */
const mostRead = 100

/** The places where the first rollouts rewrote their history, by sample, the most frequent first. */
async function historyBreaks({ reader, events }: ShownModel): Promise<HistoryBreak[]> {
  const rewritten = events.filter((event) => event.rewritten > 0).slice(0, mostRead)
  if (rewritten.length === 0) return []
  const run = await openRunFolder(reader.location)
  const breaks = new Map<string, HistoryBreak>()
  for (const event of rewritten) {
    const said = await run.trajectories(event)
    if (said.state !== 'found') continue
    for (const [sampleId, trajectory] of Object.entries(said.value)) {
      const [step] = rewrittenSteps(trajectory)
      if (step === undefined) continue
      const rollout = rolloutName({ ...event, model_tag: 'primary' })
      const framework = frameworkOf(trajectory)
      const key = JSON.stringify([sampleId, framework])
      const { rollouts = 0, first = { rollout, step } } = breaks.get(key) ?? {}
      breaks.set(key, { sampleId, framework, rollouts: rollouts + 1, first })
    }
  }
  return [...breaks.values()].toSorted((a, b) => b.rollouts - a.rollouts)
}
