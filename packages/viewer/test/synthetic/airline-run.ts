import type { ItemEvent, RunManifest } from '@osmosis/eval/analysis'

import { converse, drawEnding, type Ending } from './airline-rollout.ts'
import { airlineTask, type AirlineTask } from './airline-tasks.ts'
import type { Conversation } from './conversation.ts'
import { between, seededRandom, type Random } from './random.ts'
import { idOf, RunWriter } from './run-writer.ts'

/** What a made-up run looks like. */
export interface AirlineRun {
  readonly name: string
  readonly rows: number
  /** Position of its first row in the dataset. Default: 0. */
  readonly firstRow?: number
  readonly attempts: number
  /** From 0 to 1. */
  readonly skill?: number
  readonly seed?: number
  /** How many of its items have ended; all by default. */
  readonly ended?: number
  /** Fields of the workflow's config that have other values. */
  readonly workflow?: Readonly<Record<string, unknown>>
}

/** Writes a made-up run of a customer service agent; the same options write the same bytes. */
export function writeAirlineRun(root: string, run: AirlineRun): string {
  const { rows, firstRow = 0, attempts, skill = 0.6, seed = 2, ended = rows * attempts } = run
  const tasks = airlineTasks(firstRow + rows).slice(firstRow)
  const random = seededRandom(seed * 7919)
  const writer = new RunWriter(root, airlineManifest(run, tasks))
  let written = 0
  for (const task of tasks) {
    for (let attempt = 0; attempt < attempts && written < ended; attempt++, written++) {
      const ending = drawEnding(task, skill, random)
      const { event, samples } = airlineRollout(run.name, task, attempt, ending, random)
      writer.add({ ...event, row_index: task.row - firstRow }, samples)
    }
  }
  writer.close()
  return writer.folder
}

/** The rows of the made-up dataset: the same for every run. */
export function airlineTasks(rows: number): AirlineTask[] {
  const random = seededRandom(11)
  return Array.from({ length: rows }, (_, row) => airlineTask(row, random))
}

export function airlineManifest(
  { name, attempts, workflow }: Pick<AirlineRun, 'name' | 'attempts' | 'workflow'>,
  tasks: readonly AirlineTask[],
): RunManifest {
  return {
    schema_version: 1,
    local_run_id: idOf(name),
    run_name: name,
    created_at: '2026-11-20T09:00:00.000Z',
    inputs: {
      model: {
        name: `Qwen/Qwen3-8B:${name.split('-').at(-1) ?? ''}`,
        base_url: 'http://127.0.0.1:8000/v1',
        params: { temperature: 0.7 },
      },
      dataset: { name: 'data/airline.jsonl', sha256: idOf('airline').repeat(2) },
      code: {
        rollout: 'airline-support',
        kind: 'workflow',
        entrypoint: 'rollouts/airline/main.ts',
        sha256: idOf('main').repeat(2),
        scorers: [],
      },
      ...(workflow === undefined ? {} : { workflow }),
      env: {},
      secrets: [],
      timeouts: { agent_seconds: 120, grader_seconds: 60, max_turns: null },
    },
    n: attempts,
    pass_threshold: 1,
    provenance: { sdk_version: '0.1.0', node_version: '24.0.0', config: null, git: null },
    rows: tasks.map((task) => ({
      key: idOf(task.ask),
      source_row: task.row,
      question: task.ask.slice(0, 120),
      facets: { task: task.kind },
    })),
  }
}

/** One attempt at a row, as a line of the journal and what was said in it. */
export function airlineRollout(
  run: string,
  task: AirlineTask,
  attempt: number,
  ending: Ending,
  random: Random,
): {
  event: Omit<ItemEvent, 'trajectory_place' | 'sample_place'>
  samples: Record<string, object>
} {
  const talk = converse(task, attempt, ending, random)
  const rolloutId = idOf(`${run}/${task.row}/${attempt}`)
  const failed = ending === 'timeout'
  const reward = rewardOf(ending, random)
  const error = 'The workflow exceeded its 120 s; the last model call had been running for 96 s.'
  const metrics = {
    db_state: reward !== null && reward > 0 ? 1 : 0,
    confirmed_first: ending === 'claimed' ? 0 : 1,
  }
  const samples = { agent: document(run, rolloutId, talk, { task, reward, metrics }) }
  return {
    event: {
      row_index: task.row,
      run_index: attempt,
      source_row_index: task.row,
      rollout_id: rolloutId,
      status: failed ? 'failed' : 'success',
      reward,
      tokens: talk.promptTokens + talk.completionTokens,
      duration_ms: talk.durationMs + (failed ? 110_000 : 0),
      error_type: failed ? 'timeout' : null,
      error_message: failed ? error : null,
      row_key: idOf(task.ask),
      samples: failed ? {} : { agent: reward },
      prompt_tokens: talk.promptTokens,
      completion_tokens: talk.completionTokens,
      cost_usd: null,
      calls: talk.calls,
      tool_calls: talk.toolCalls,
      tool_errors: talk.toolErrors,
      finish: talk.finish,
      rewritten: talk.rewritten,
      tools: [...talk.tools].map(([name, used]) => ({ name, ...used })),
      metrics: failed ? {} : metrics,
      grading_ms: failed ? null : between(random, 2, 40),
      summary: (failed ? error : talk.lastText).slice(0, 160),
      ended_at: talk.endedAt,
    },
    samples,
  }
}

function rewardOf(ending: Ending, random: Random): number | null {
  if (ending === 'timeout') return null
  if (ending === 'right') return random() < 0.08 ? 0.5 : 1
  return ending === 'claimed' ? 1 : 0
}

const toolNames = [
  'get_user_details',
  'get_reservation_details',
  'search_direct_flight',
  'update_reservation_flights',
  'update_reservation_baggages',
  'cancel_reservation',
  'calculate',
  'transfer_to_human_agents',
]

function document(
  run: string,
  rolloutId: string,
  talk: Conversation,
  graded: {
    readonly task: AirlineTask
    readonly reward: number | null
    readonly metrics: Readonly<Record<string, number>>
  },
): object {
  const { task, reward, metrics } = graded
  return {
    schema_version: 'ATIF-v1.7',
    session_id: rolloutId,
    trajectory_id: `${rolloutId}/agent`,
    agent: {
      name: 'osmosis-rollout-sdk',
      version: '0.1.0',
      model_name: run,
      tool_definitions: toolNames.map((name) => ({
        type: 'function',
        function: { name, description: name.replaceAll('_', ' ') },
      })),
    },
    steps: talk.steps,
    final_metrics: {
      total_prompt_tokens: talk.promptTokens,
      total_completion_tokens: talk.completionTokens,
      total_steps: talk.steps.length,
    },
    extra: {
      osmosis: {
        rollout_id: rolloutId,
        sample_id: 'agent',
        label: task.label,
        ...(reward === null ? {} : { reward }),
        sample_metrics: metrics,
        request_metadata: { task: task.kind, code: task.code },
      },
    },
  }
}
