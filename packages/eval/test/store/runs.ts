import type { ItemEvent, RunInputs, RunManifest } from '@osmosis/eval/analysis'
import type { EndedItem } from '@osmosis/eval'

export const inputs: RunInputs = {
  model: { name: 'step-200', base_url: 'http://127.0.0.1:8000/v1', baseline: null, params: {} },
  dataset: { name: 'data/rows.jsonl', sha256: 'd'.repeat(64) },
  code: {
    rollout: 'airline',
    kind: 'workflow',
    entrypoint: 'rollouts/airline/main.ts',
    sha256: 'c'.repeat(64),
    scorers: [],
  },
  env: { LOCALE: 'en' },
  secrets: ['OPENAI_API_KEY'],
  timeouts: { agent_seconds: 600, grader_seconds: null, max_turns: null },
}

export function manifestOf(overrides: Partial<RunManifest> = {}): RunManifest {
  return {
    schema_version: 1,
    local_run_id: '0'.repeat(32),
    run_name: 'airline-1',
    created_at: '2026-01-02T03:04:05.000Z',
    inputs,
    n: 2,
    pass_threshold: 1,
    provenance: { sdk_version: '1.0.0', node_version: 'v24.0.0', config: null, git: null },
    rows: [
      { key: 'row-0', source_row: 0 },
      { key: 'row-1', source_row: 1 },
    ],
    ...overrides,
  }
}

export function eventOf(
  row: number,
  attempt: number,
  overrides: Partial<ItemEvent> = {},
): EndedItem['event'] {
  return {
    row_index: row,
    run_index: attempt,
    source_row_index: row,
    rollout_id: `rollout-${row}-${attempt}`,
    status: 'success',
    reward: 1,
    tokens: 15,
    duration_ms: 12.5,
    error_type: null,
    error_message: null,
    row_key: `row-${row}`,
    samples: { main: 1 },
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
    summary: 'Done.',
    ended_at: '2026-01-02T03:05:00.000Z',
    ...overrides,
  }
}

/** An item in which the policy said `text`. */
export function itemOf(
  row: number,
  attempt: number,
  text = 'Done.',
  overrides: Partial<ItemEvent> = {},
): EndedItem {
  const event = eventOf(row, attempt, overrides)
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
