import type { AgentLoopApp, FunctionTool } from '@osmosis/agent-loop'
import type { DatasetRow } from '@osmosis/eval'

import type { CompletedBody, LocalTrainer } from './local-trainer.ts'
import type { TestFlags } from './test-flags.ts'

/** How a row went. */
export interface RowResult {
  readonly rowIndex: number
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
  readonly flags: Pick<TestFlags, 'maxTurns' | 'maxTokens' | 'temperature'>
  /** Told when a rollout was accepted. */
  readonly onAccepted?: (tools: readonly FunctionTool[]) => void
}

/** Runs one row as a trainer would: one init, then whatever the loop asks, then its result. */
export async function runRow(row: DatasetRow, parts: RowRunnerParts): Promise<RowResult> {
  const { app, trainer } = parts
  const rolloutId = `test-${row.sourceRowIndex}-${crypto.randomUUID().slice(0, 8)}`
  const started = performance.now()
  const completed = trainer.result(rolloutId)
  const answer = await app.fetch(
    new Request('http://app/v1/rollout/init', {
      method: 'POST',
      body: JSON.stringify(initBody(rolloutId, row, parts)),
    }),
  )
  const said = (await answer.json()) as { tools?: FunctionTool[]; detail?: unknown }
  if (answer.status !== 202) {
    return failedRow(row, describe(said.detail), performance.now() - started)
  }
  trainer.setTools(rolloutId, said.tools ?? [])
  parts.onAccepted?.(said.tools ?? [])
  return toRowResult(row, await completed, performance.now() - started)
}

function initBody(
  rolloutId: string,
  row: DatasetRow,
  { trainer, trainerUrl, flags }: RowRunnerParts,
): Record<string, unknown> {
  const { maxTurns, maxTokens, temperature } = flags
  return {
    rollout_id: rolloutId,
    server_url: trainerUrl,
    messages: row.initialMessages,
    completion_params: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    },
    max_turns: maxTurns,
    metadata: {
      ...(row.label === null ? {} : { ground_truth: row.label }),
      ...row.metadata,
      row_index: row.sourceRowIndex,
      execution_mode: 'test',
    },
    api_key: trainer.apiKey,
  }
}

function toRowResult(row: DatasetRow, body: CompletedBody, durationMs: number): RowResult {
  const { metrics } = body
  const failed = body.status !== 'COMPLETED'
  return {
    rowIndex: row.sourceRowIndex,
    error: failed ? (body.error_message ?? 'no error message') : null,
    durationMs,
    reward: body.reward ?? null,
    finishReason: body.finish_reason ?? null,
    promptTokens: metrics['prompt_tokens'] ?? 0,
    completionTokens: metrics['response_tokens'] ?? 0,
    llmCalls: metrics['num_llm_calls'] ?? 0,
    finalMessages: body.final_messages,
  }
}

function failedRow(row: DatasetRow, error: string, durationMs: number): RowResult {
  return {
    rowIndex: row.sourceRowIndex,
    error,
    durationMs,
    reward: null,
    finishReason: null,
    promptTokens: 0,
    completionTokens: 0,
    llmCalls: 0,
    finalMessages: [],
  }
}

function describe(detail: unknown): string {
  return typeof detail === 'string' ? detail : JSON.stringify(detail)
}
