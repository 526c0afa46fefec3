import type { ItemEvent, RunManifest, RunRow } from '@osmosis/eval/analysis'

/** A manifest of so many rows, with n attempts at each and a threshold of 1. */
export function manifestOf(
  rows: number | readonly RunRow[],
  { n = 4, threshold = 1, name = 'run' } = {},
): RunManifest {
  const list =
    typeof rows === 'number'
      ? Array.from({ length: rows }, (_, row) => ({ key: `key-${row}`, source_row: row }))
      : rows
  return {
    schema_version: 1,
    local_run_id: '0'.repeat(32),
    run_name: name,
    created_at: '2026-11-20T09:00:00.000Z',
    inputs: {
      model: { name: 'qwen3:8b', base_url: null, baseline: null, params: {} },
      dataset: { name: 'data/airline.jsonl', sha256: '0'.repeat(64) },
      code: {
        rollout: 'airline',
        kind: 'workflow',
        entrypoint: 'main.ts',
        sha256: '0'.repeat(64),
        scorers: [],
      },
      env: {},
      secrets: [],
      timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
    },
    n,
    pass_threshold: threshold,
    provenance: { sdk_version: '0.0.0', node_version: '24', config: null, git: null },
    rows: list,
  }
}

/** The end of an item that asked the policy once and said something of its own. */
export function eventOf(row: number, attempt: number, fields: Partial<ItemEvent> = {}): ItemEvent {
  const failed = fields.status === 'failed'
  return {
    row_index: row,
    run_index: attempt,
    source_row_index: row,
    rollout_id: `${row}-${attempt}`,
    status: 'success',
    reward: failed ? null : 1,
    tokens: 1100,
    duration_ms: 2000,
    error_type: failed ? 'timeout' : null,
    error_message: failed ? 'The workflow exceeded its 2 s.' : null,
    row_key: `key-${row}`,
    samples: {},
    prompt_tokens: 1000,
    completion_tokens: 100,
    cost_usd: null,
    calls: 1,
    tool_calls: 0,
    tool_errors: 0,
    finish: { stop: 1 },
    rewritten: 0,
    tools: [],
    metrics: {},
    grading_ms: 1,
    summary: `Row ${row}, attempt ${attempt}.`,
    ended_at: '2026-11-20T09:01:00.000Z',
    at: null,
    sat: null,
    ...fields,
  }
}

/** Events of rows of rewards; null is a rollout that failed. */
export function eventsOf(rewards: readonly (readonly (number | null)[])[]): ItemEvent[] {
  return rewards.flatMap((row, at) =>
    row.map((reward, attempt) =>
      eventOf(at, attempt, reward === null ? { status: 'failed' } : { reward }),
    ),
  )
}
