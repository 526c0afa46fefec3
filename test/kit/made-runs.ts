// Imports no other module, because processes that tests start import it by its path.
import type { ItemEvent, RunManifest, RunRow, StepRecord } from '@osmosis/eval/analysis'

/** The fields of a manifest that a test sets; those of the code and the model may be partial. */
export interface MadeManifest extends Partial<Omit<RunManifest, 'inputs'>> {
  readonly inputs?: Partial<Omit<RunManifest['inputs'], 'code' | 'model'>> & {
    readonly code?: Partial<RunManifest['inputs']['code']>
    readonly model?: Partial<RunManifest['inputs']['model']>
  }
}

/** The manifest of a run of a workflow over two rows, with the fields of `made`. */
export function madeManifest({ inputs, ...made }: MadeManifest = {}): RunManifest {
  return {
    schema_version: 1,
    local_run_id: '0'.repeat(32),
    run_name: 'airline-1',
    created_at: '2026-01-02T03:04:05.000Z',
    inputs: {
      dataset: { name: 'data/airline.jsonl', sha256: 'd'.repeat(64) },
      env: {},
      secrets: [],
      timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
      ...inputs,
      model: {
        name: 'step-200',
        base_url: 'http://127.0.0.1:8000/v1',
        params: {},
        ...inputs?.model,
      },
      code: {
        rollout: 'airline',
        kind: 'workflow',
        entrypoint: 'rollouts/airline/main.ts',
        sha256: 'c'.repeat(64),
        scorers: [],
        ...inputs?.code,
      },
    },
    n: 1,
    pass_threshold: 1,
    provenance: { sdk_version: '1.0.0', node_version: 'v24.0.0', config: null, git: null },
    rows: madeRows(2),
    ...made,
  }
}

/** So many rows, from the beginning of a dataset. */
export function madeRows(count: number): RunRow[] {
  return Array.from({ length: count }, (_, row) => ({ key: `row-${row}`, source_row: row }))
}

/** The end of an item that called the policy once and passed, with these fields. */
export function madeEvent(
  row: number,
  attempt: number,
  fields: Partial<ItemEvent> = {},
): ItemEvent {
  const isFailed = fields.status === 'failed'
  return {
    row_index: row,
    run_index: attempt,
    source_row_index: row,
    rollout_id: `rollout-${row}-${attempt}`,
    status: 'success',
    reward: isFailed ? null : 1,
    tokens: 1100,
    duration_ms: 2000,
    error_type: isFailed ? 'timeout' : null,
    error_message: isFailed ? 'The workflow exceeded its 2 s.' : null,
    row_key: `row-${row}`,
    samples: isFailed ? {} : { main: fields.reward === undefined ? 1 : fields.reward },
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
    summary: `Answer ${row}.${attempt}.`,
    ended_at: '2026-01-02T03:05:00.000Z',
    trajectory_place: null,
    sample_place: null,
    ...fields,
  }
}

/** A step of a training with 8 rollouts and an update, with these fields; those of the figures and the update may be partial. */
export function madeStep(
  step: number,
  {
    rollouts,
    update,
    ...made
  }: Partial<Omit<StepRecord, 'rollouts' | 'update'>> & {
    readonly rollouts?: Partial<StepRecord['rollouts']>
    readonly update?: Partial<StepRecord['update']>
  } = {},
): StepRecord {
  const interval = { rewardFrom: null, rewardTo: null, passFrom: null, passTo: null }
  const behaviour = { answerTokens: 100, toolCalls: 2, cutOff: 0.02, seconds: 14 }
  const learned = { tokens: 800, sequences: 8 }
  const skipped = { stale: 0, splits: 0, withoutIds: 0, untrainable: 0 }
  const drift = { driftMean: 6e-6, driftMax: 2e-5 }
  return {
    kind: 'step',
    step,
    phase: 'policy_gradient',
    run: `step-${String(step).padStart(4, '0')}`,
    version: step,
    sampledBy: step - 1,
    rollouts: {
      rollouts: 8,
      failed: 0,
      reward: 0.5,
      passRate: 0.5,
      ...interval,
      ...behaviour,
      ...rollouts,
    },
    batch: { groups: 2, groupsWithSignal: 2, ...learned, ...skipped },
    update: {
      loss: -0.1,
      ...drift,
      entropy: 1,
      clipFraction: 0.01,
      kl: null,
      gradNorm: 0.4,
      ...learned,
      seconds: 3,
      ...update,
    },
    rows: [0, 1],
    settledRows: [],
    alarms: [],
    endedAt: '2026-11-20T09:00:00.000Z',
    ...made,
  }
}
