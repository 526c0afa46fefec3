import type { TrajectoryStep } from '@osmosis/protocol/trajectory'
import type { JSX } from 'preact'

import { kindOf } from './step-facts.ts'

/** More bars than this have no gaps between them. */
const maxBarsWithGaps = 120

/** A bar for each step, as wide as its tokens, red where a tool failed. */
export function Timeline({
  steps,
  at,
  onGo,
}: {
  steps: readonly TrajectoryStep[]
  /** The id of the selected step; 0 for none. */
  at: number
  onGo: (stepId: number) => void
}): JSX.Element {
  const written = steps.map((step) => step.metrics?.completion_tokens ?? 8)
  const most = Math.max(1, ...written)
  return (
    <div
      class={`timeline${steps.length > maxBarsWithGaps ? ' dense' : ''}`}
      role="group"
      aria-label="Steps"
    >
      {steps.map((step, index) => (
        <button
          key={step.step_id}
          // Hundreds of bars are not in the tab order; n, p and the scroll bar remain.
          tabIndex={steps.length > maxBarsWithGaps ? -1 : 0}
          class={kindOf(step)}
          style={{ flexGrow: 1 + (5 * (written[index] ?? 0)) / most }}
          title={titleOf(step)}
          aria-label={titleOf(step)}
          aria-current={step.step_id === at ? 'step' : undefined}
          onClick={() => onGo(step.step_id)}
        />
      ))}
    </div>
  )
}

function titleOf(step: TrajectoryStep): string {
  const called = step.tool_calls?.map(({ function_name: name }) => name).join(', ')
  const tokens = step.metrics?.completion_tokens
  const cost = tokens === undefined || tokens === null ? '' : `, ${tokens} tokens`
  return `Step ${step.step_id}: ${called || step.source}${cost}`
}
