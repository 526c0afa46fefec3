import { createRun, type EndedItem, type GradedRollout } from '@osmosis/eval'
import type { ItemEvent, RunManifest } from '@osmosis/eval/analysis'

import { madeEvent, madeManifest, madeRows, type MadeManifest } from '../../../test/kit/index.ts'

/** The manifest of a run of the test workspace, whose workflow or loop is in `entrypoint`. */
export function storedManifest(
  rows: number,
  code: Partial<RunManifest['inputs']['code']> = {},
  inputs: Omit<NonNullable<MadeManifest['inputs']>, 'code'> = {},
): RunManifest {
  const echo = { rollout: 'echo', entrypoint: 'rollouts/echo/main.ts', ...code }
  return madeManifest({
    run_name: 'stored',
    inputs: { ...inputs, model: { name: 'scripted', ...inputs.model }, code: echo },
    rows: madeRows(rows),
  })
}

/** An item in which the policy said `text`, and which was rewarded with `reward`. */
export function storedItem(
  row: number,
  text: string,
  reward: number | null,
  overrides: Partial<ItemEvent> & { graded?: Partial<GradedRollout> | null } = {},
): EndedItem {
  const { graded, ...event } = overrides
  const messages = [
    { role: 'user', content: `question ${row}` },
    { role: 'assistant', content: text },
  ]
  return {
    event: madeEvent(row, 0, {
      rollout_id: `rollout-${row}`,
      status: reward === null ? 'failed' : 'success',
      reward,
      error_type: reward === null ? 'agent_error' : null,
      error_message: reward === null ? 'it broke' : null,
      summary: text,
      ...event,
    }),
    trajectories: {
      main: {
        schema_version: 'ATIF-v1.7',
        session_id: `rollout-${row}`,
        agent: { name: 'echo', version: '1.0.0' },
        steps: [
          { step_id: 1, source: 'user', message: `question ${row}` },
          { step_id: 2, source: 'agent', message: text },
        ],
      },
    },
    graded:
      graded === null
        ? null
        : {
            label: String(row),
            metadata: null,
            artifacts: null,
            samples: { main: { messages, label: null, metrics: {}, extra_fields: {} } },
            wire: { main: {} },
            ...graded,
          },
  }
}

/** Writes a run into a folder of runs, and returns its folder. */
export async function storeRun(
  outputRoot: string,
  items: readonly EndedItem[],
  manifest = storedManifest(items.length),
): Promise<string> {
  const store = await createRun({ outputRoot, manifest })
  for (const item of items) await store.commit(item)
  await store.close()
  return store.location
}
