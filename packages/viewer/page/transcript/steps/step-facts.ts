import { isRewritten, isToolError } from '@osmosis/eval/analysis'
import type { TrajectoryStep } from '@osmosis/protocol/trajectory'

/** The kind of a step, for its colour. */
export type StepKind = 'system' | 'user' | 'tool' | 'answer' | 'cut' | 'error'

export function kindOf(step: TrajectoryStep): StepKind {
  if (step.observation?.results.some(isToolError)) return 'error'
  if (finishReason(step) === 'length') return 'cut'
  if (step.source !== 'agent') return step.source
  return step.tool_calls?.length ? 'tool' : 'answer'
}

/** Whether n and p select this step. */
export function isNotable(step: TrajectoryStep): boolean {
  try {
    const kind = kindOf(step)
    return kind === 'error' || kind === 'cut' || rewroteHistory(step)
  } catch {
    // It is shown as plain text.
    return false
  }
}

export function finishReason(step: TrajectoryStep): unknown {
  return step.metrics?.extra?.['finish_reason']
}

/** Milliseconds; null when not measured. */
export function latency(step: TrajectoryStep): number | null {
  const value = step.metrics?.extra?.['latency_ms']
  return typeof value === 'number' ? value : null
}

export function rewroteHistory(step: TrajectoryStep): boolean {
  return isRewritten(step.metrics?.extra)
}

/** Where it was rewritten; '' when unknown. */
export function rewrittenFrom(step: TrajectoryStep): string {
  const index = step.metrics?.extra?.['history_rewritten_at']
  return typeof index === 'number' ? `, from message ${index + 1} of the request on` : ''
}
