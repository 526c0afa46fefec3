import { createRun, type EndedItem, type GradedRollout } from '@osmosis/eval'
import type { ItemEvent, RunManifest } from '@osmosis/eval/analysis'

const sha256 = '0'.repeat(64)

/** The manifest of a run of the test workspace, whose workflow or loop is in `entrypoint`. */
export function storedManifest(
  rows: number,
  code: Partial<RunManifest['inputs']['code']> = {},
  inputs: Partial<RunManifest['inputs']> = {},
): RunManifest {
  return {
    schema_version: 1,
    local_run_id: '0'.repeat(32),
    run_name: 'stored',
    created_at: '2026-11-20T09:00:00.000Z',
    inputs: {
      model: { name: 'scripted', base_url: null, baseline: null, params: {} },
      dataset: { name: 'words', sha256 },
      code: {
        rollout: 'echo',
        kind: 'workflow',
        entrypoint: 'rollouts/echo/main.ts',
        sha256,
        scorers: [],
        ...code,
      },
      env: {},
      secrets: [],
      timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
      ...inputs,
    },
    n: 1,
    pass_threshold: 1,
    provenance: { sdk_version: '0', node_version: '24', config: null, git: null },
    rows: Array.from({ length: rows }, (_, row) => ({ key: `row-${row}`, source_row: row })),
  }
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
    event: {
      row_index: row,
      run_index: 0,
      source_row_index: row,
      rollout_id: `rollout-${row}`,
      status: reward === null ? 'failed' : 'success',
      reward,
      tokens: 15,
      duration_ms: 12.5,
      error_type: reward === null ? 'agent_error' : null,
      error_message: reward === null ? 'it broke' : null,
      row_key: `row-${row}`,
      samples: reward === null ? {} : { main: reward },
      prompt_tokens: 10,
      completion_tokens: 5,
      cost_usd: null,
      calls: 1,
      tool_calls: 0,
      tool_errors: 0,
      finish: { stop: 1 },
      rewritten: 0,
      tools: [],
      metrics: {},
      grading_ms: null,
      summary: text,
      ended_at: '2026-11-20T09:05:00.000Z',
      ...event,
    },
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
