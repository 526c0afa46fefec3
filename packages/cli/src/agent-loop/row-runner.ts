import type { AgentLoopApp } from '@osmosis/agent-loop'
import type {
  FunctionTool,
  LoopCompletedBody,
  LoopInitRequestInput,
  LoopInitResponseBody,
} from '@osmosis/core/wire'
import type { DatasetRow } from '@osmosis/eval'

import type { LocalTrainer } from './local-trainer.ts'
import type { LoopFlags } from './loop-flags.ts'
import { rowFields } from './row-fields.ts'

/** How a row went. */
export interface RowResult {
  readonly rowIndex: number
  readonly rolloutId: string
  /** Null when it went well. */
  readonly error: string | null
  /** Milliseconds. */
  readonly durationMs: number
  readonly reward: number | null
  readonly finishReason: string | null
  readonly promptTokens: number
  readonly completionTokens: number
  readonly llmCalls: number
  readonly finalMessages: readonly Record<string, unknown>[]
}

/** What rows are run with. */
export interface RowRunnerParts {
  readonly app: Pick<AgentLoopApp, 'fetch'>
  readonly trainer: LocalTrainer
  readonly trainerUrl: string
  readonly flags: Pick<LoopFlags, 'maxTurns' | 'maxTokens' | 'temperature'>
  /** What the loop is told the run is for. */
  readonly executionMode: 'test' | 'eval'
  /** Tells the runs of a row apart in their rollout ids, e.g. `run-0`. */
  readonly attempt?: string
  /** Told when a rollout was accepted. */
  readonly onAccepted?: (tools: readonly FunctionTool[]) => void
}

/** Runs one row as a trainer would: one init, then whatever the loop asks, then its result. */
export async function runRow(row: DatasetRow, parts: RowRunnerParts): Promise<RowResult> {
  const { app, trainer, executionMode, attempt } = parts
  const unique = crypto.randomUUID().slice(0, 8)
  const rolloutId = [executionMode, row.sourceRowIndex, attempt ?? [], unique].flat().join('-')
  const started = performance.now()
  const ended = (outcome: Outcome): RowResult => ({
    rowIndex: row.sourceRowIndex,
    rolloutId,
    durationMs: performance.now() - started,
    ...outcome,
  })
  const completed = trainer.result(rolloutId)
  const answer = await app.fetch(
    new Request('http://app/v1/rollout/init', {
      method: 'POST',
      body: JSON.stringify(initBody(rolloutId, row, parts)),
    }),
  )
  const said = (await answer.json()) as Partial<LoopInitResponseBody> & { detail?: unknown }
  if (answer.status !== 202) return ended(refused(said.detail))
  trainer.setTools(rolloutId, said.tools ?? [])
  parts.onAccepted?.(said.tools ?? [])
  return ended(outcomeOf(await completed))
}

/** What a run comes to, without the facts that it began with. */
type Outcome = Omit<RowResult, 'rowIndex' | 'rolloutId' | 'durationMs'>

function initBody(
  rolloutId: string,
  row: DatasetRow,
  { trainer, trainerUrl, flags, executionMode }: RowRunnerParts,
): LoopInitRequestInput {
  const { maxTurns, maxTokens, temperature } = flags
  return {
    rollout_id: rolloutId,
    server_url: trainerUrl,
    messages: [...row.initialMessages],
    completion_params: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    },
    max_turns: maxTurns,
    metadata: {
      ...rowFields(row),
      ...(row.label === null ? {} : { ground_truth: row.label }),
      row_index: row.sourceRowIndex,
      execution_mode: executionMode,
    },
    api_key: trainer.apiKey,
  }
}

function outcomeOf(body: LoopCompletedBody): Outcome {
  const { metrics } = body
  const failed = body.status !== 'COMPLETED'
  return {
    error: failed ? (body.error_message ?? 'no error message') : null,
    reward: body.reward ?? null,
    finishReason: body.finish_reason ?? null,
    promptTokens: metrics.prompt_tokens,
    completionTokens: metrics.response_tokens,
    llmCalls: metrics.num_llm_calls,
    finalMessages: body.final_messages,
  }
}

/** Nothing ran. */
function refused(detail: unknown): Outcome {
  return {
    error: typeof detail === 'string' ? detail : JSON.stringify(detail),
    reward: null,
    finishReason: null,
    promptTokens: 0,
    completionTokens: 0,
    llmCalls: 0,
    finalMessages: [],
  }
}
