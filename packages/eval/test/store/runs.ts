import type { EndedItem } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import { madeEvent } from '../../../../test/kit/made-runs.ts'

/** An item in which the policy said `text`. */
export function itemOf(
  row: number,
  attempt: number,
  text = 'Done.',
  overrides: Partial<ItemEvent> = {},
): EndedItem {
  const event = madeEvent(row, attempt, overrides)
  return {
    event,
    trajectories: {
      main: {
        schema_version: 'ATIF-v1.7',
        session_id: event.rollout_id,
        agent: { name: 'airline', version: '1.0.0' },
        steps: [
          { step_id: 1, source: 'user', message: `Question ${row}` },
          { step_id: 2, source: 'agent', message: text },
        ],
      },
    },
    graded: {
      label: `label ${row}`,
      metadata: { task: 'refund' },
      artifacts: null,
      samples: {
        main: {
          messages: [{ role: 'assistant', content: text }],
          label: null,
          metrics: {},
          extra_fields: {},
        },
      },
    },
  }
}
