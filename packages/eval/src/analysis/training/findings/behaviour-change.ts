import { formatCount, formatShare } from '../../figures/number-text.ts'
import { average } from '../../statistics/estimate.ts'
import type { StepFigures, TrainingRecord } from '../training-records.ts'

/** Steps at the start and at the end that are compared without evaluations. */
const compared = 3

/**
 * What the model does differently now, in a sentence: how much it writes, how often it calls tools, and how its answers end.
 * The first and the last evaluation are compared; with fewer than two of them the first and the last steps, at most 3 each.
 * Null without two measurements.
 *
 * Only clear differences count. With n rollouts in the smaller measurement a mean changes clearly by a tenth and by 2/√n of its
 * larger value, a share by 5 points and by 1/√n.
 */
export function behaviourChange(records: readonly TrainingRecord[]): string | null {
  const figuresOf = (kind: TrainingRecord['kind']): StepFigures[] =>
    records.flatMap((record) =>
      record.kind === kind && 'rollouts' in record && record.rollouts.rollouts > 0
        ? [record.rollouts]
        : [],
    )
  const evaluations = figuresOf('evaluation')
  const isHeldOut = evaluations.length > 1
  const measured = isHeldOut ? evaluations : figuresOf('step')
  const count = isHeldOut ? 1 : Math.min(compared, Math.floor(measured.length / 2))
  if (count === 0) return null
  const where = isHeldOut ? 'On held-out rows' : `In the latest step${count === 1 ? '' : 's'}`
  return `${where} ${changeText(measured.slice(0, count), measured.slice(-count))}.`
}

/** A figure of the first and of the last measurements. */
type Change = readonly [before: number, now: number]

function changeText(first: readonly StepFigures[], last: readonly StepFigures[]): string {
  const counts = [first, last].map((list) => list.reduce((sum, { rollouts }) => sum + rollouts, 0))
  const noise = 1 / Math.sqrt(Math.min(...counts))
  const change = (value: (figures: StepFigures) => number): Change => [
    average(first.map(value)),
    average(last.map(value)),
  ]
  // A mean below 0.5 is that of rare events.
  const isClear = ([before, now]: Change): boolean =>
    Math.abs(now - before) >= Math.max(0.1, 2 * noise) * Math.max(before, now, 0.5)
  const isClearShare = ([before, now]: Change): boolean =>
    Math.abs(now - before) >= Math.max(0.05, noise)
  const tokens = change(({ answerTokens }) => answerTokens)
  const tools = change(({ toolCalls }) => toolCalls)
  const cutOff = change((figures) => figures.cutOff)
  const failed = change((figures) => figures.failed / figures.rollouts)
  // Not every server counts tokens, and not every agent has tools.
  const hasTokens = Math.min(...tokens) > 0
  const hasTools = Math.max(...tools) > 0
  const endings = [
    ...(isClearShare(cutOff) ? [shareText('answer', 'is cut off', 'are cut off', cutOff)] : []),
    ...(isClearShare(failed) ? [shareText('rollout', 'fails', 'fail', failed)] : []),
  ]
  const hasChanged = (hasTokens && isClear(tokens)) || (hasTools && isClear(tools))
  if (!hasChanged && endings.length === 0) {
    const same = [...(hasTokens ? ['length'] : []), ...(hasTools ? ['tool calls'] : [])]
    return `${same.join(', ')}${same.length > 0 ? ' and ' : ''}endings are about the same`
  }
  const own = [
    ...(hasTokens ? [isClear(tokens) ? tokenText(tokens) : 'writes about as much'] : []),
    ...(hasTools ? [isClear(tools) ? toolText(tools) : 'calls tools as often'] : []),
  ]
  const all = [...own, ...endings]
  const and = endings.length === 0 ? ' and ' : ', and '
  const text = [all.slice(0, -1).join(', '), ...all.slice(-1)].filter((part) => part !== '')
  return `${own.length > 0 ? 'it now ' : ''}${text.join(and)}`
}

function tokenText([before, now]: Change): string {
  return `writes ${meanText(now)} tokens per rollout instead of ${meanText(before)}`
}

function toolText([before, now]: Change): string {
  if (now === 0) return `calls no tools (before: ${meanText(before)} times per rollout)`
  const calls = `calls tools ${meanText(now)} times per rollout`
  return before === 0
    ? `${calls}, which it did not before`
    : `${calls} instead of ${meanText(before)}`
}

function shareText(noun: string, one: string, many: string, [before, now]: Change): string {
  const text = now === 0 ? `no ${noun} ${one}` : `${percent(now)} of the ${noun}s ${many}`
  return `${text} (before: ${before === 0 ? 'none' : percent(before)})`
}

function percent(share: number): string {
  return share < 0.01 ? formatShare(share) : `${Math.round(100 * share)} %`
}

function meanText(mean: number): string {
  return mean >= 10 ? formatCount(Math.round(mean)) : mean.toFixed(mean < 1 ? 2 : 1)
}
