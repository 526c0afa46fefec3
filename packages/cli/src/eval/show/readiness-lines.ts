import { formatCount, formatQuantity } from '@osmosis/eval'
import { trainingReadiness, type TrainingReadiness } from '@osmosis/eval/analysis'

import { onOneLine, styled, wrapped } from '../../command/terminal-text.ts'
import { fewestRows, valueText } from './figure-text.ts'
import type { HistoryBreak } from './history-breaks.ts'
import { commandLines } from './shell-command.ts'
import type { ShownModel } from './shown-run.ts'

/** One thing that a trainer cares about. */
interface Remark {
  /** `bad`: there would be nothing to learn. `warn`: a part of it is lost. `open`: nobody can say yet. */
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

/** What a trainer would get of the rollouts of a run, and what it would stumble over. */
export function readinessLines(
  run: ShownModel,
  breaks: readonly HistoryBreak[],
  { of, width }: { readonly of: string; readonly width: number },
): string[] {
  const { table, command } = run
  const readiness = trainingReadiness(table)
  if (readiness.rollouts === 0) return []
  const remarks = [
    gradientRemark(readiness, run),
    rewardRemark(readiness, table.measure),
    ...callsRemark(readiness),
    // Of rollouts that asked nobody there is nothing to say.
    ...(readiness.withoutCalls < readiness.rollouts
      ? [historyRemark(readiness, breaks), cutRemark(readiness)]
      : []),
    ...tokensRemark(readiness),
  ]
  return [
    `${styled('bold', `Ready to train${of}:`)} ${verdict(remarks)}`,
    ...remarks.flatMap(({ tone, text, query }) => {
      const [first = '', ...more] = wrapped(text, width - 2)
      const lines = [`${marks[tone]} ${first}`, ...more.map((line) => `  ${line}`)]
      if (query === undefined) return lines
      return [...lines, ...commandLines(['eval', 'show', command, '--filter', query])]
    }),
  ]
}

/** One attempt a row leaves the most important question open. */
function verdict(remarks: readonly Remark[]): string {
  const tones = new Set(remarks.map(({ tone }) => tone))
  if (tones.has('bad')) return styled('red', 'no')
  if (tones.has('open')) return 'not known'
  return tones.has('warn') ? styled('yellow', 'yes, with losses') : styled('green', 'yes')
}

/** Smaller groups show how much the size matters. */
function gradientRemark(readiness: TrainingReadiness, { table }: ShownModel): Remark {
  const { gradient, smallerGroups } = readiness
  const { attempts } = table.document
  if (attempts < 2) {
    return {
      tone: 'open',
      text: 'One attempt a row does not say which rows have a gradient: run it with --n 4 or more.',
    }
  }
  if (gradient.value === null) {
    return { tone: 'open', text: 'Of no row have two attempts ended yet.' }
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
  const rest = others.length === 0 ? '' : ` Of the others ${others.join(', ')}.`
  const few = gradient.rows < fewestRows ? ` So few rows say little of others.` : ''
  return {
    tone: gradient.value === 0 ? 'bad' : few === '' ? 'ok' : 'open',
    text:
      gradient.value === 0
        ? `No row has a gradient in groups of ${formatCount(attempts)}: nothing would be learned.${rest}`
        : `${valueText(gradient, 'share')} of ${formatQuantity(gradient.rows, 'row')} ${has(gradient.rows)} a gradient in groups of ${formatCount(attempts)}${smaller}.${rest}${few}`,
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

/** Only where there is something to say. */
function callsRemark({ withoutCalls }: TrainingReadiness): Remark[] {
  if (withoutCalls === 0) return []
  const text = `${formatQuantity(withoutCalls, 'rollout')} never asked the policy, so there is nothing to train. Does the agent use another model?`
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
    text: `${formatQuantity(rewritten, 'rollout')} ${has(rewritten)} a call that does not extend the conversation before it, where trainers split or mask.${where} Trimmed or summarised histories do that, and agents that share a sample.`,
    query: 'is:rewritten',
  }
}

function cutRemark({ cut, rollouts }: TrainingReadiness): Remark {
  if (cut === 0) return { tone: 'ok', text: 'No answer is cut off.' }
  return {
    tone: 'warn',
    text: `${formatQuantity(cut, 'rollout')} of ${formatCount(rollouts)} ${has(cut)} an answer that is cut off (finish_reason length): allow more tokens, or reward it as what it is.`,
    query: 'is:cut',
  }
}

/** Nothing where the endpoint counted none. */
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
