import type { LoopOrder, LoopOutcome, ServerAddress, Trainer } from '@osmosis/controller'
import { errorMessage, isOsmosisError, type OsmosisError } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'

import type { TestFlags } from './test.ts'

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
  readonly finalMessages: readonly Readonly<Record<string, unknown>>[]
}

/** What rows are run with. */
export interface RowRunnerParts {
  readonly trainer: Pick<Trainer, 'run'>
  /** Where the loop is served. */
  readonly server: ServerAddress
  readonly flags: Pick<TestFlags, 'maxTurns' | 'maxTokens' | 'temperature'>
  readonly hooks?: Pick<
    NonNullable<Parameters<Trainer['run']>[1]>,
    'signal' | 'onAccepted' | 'onAnswer'
  >
}

/** Runs one row as a trainer would: one init, then whatever the loop asks, then its result. */
export async function runRow(row: DatasetRow, parts: RowRunnerParts): Promise<RowResult> {
  const { trainer, server, hooks = {} } = parts
  const unique = crypto.randomUUID().slice(0, 8)
  const rolloutId = `test-${row.sourceRowIndex}-${unique}`
  const started = performance.now()
  const ended = (outcome: Outcome): RowResult => ({
    rowIndex: row.sourceRowIndex,
    rolloutId,
    durationMs: performance.now() - started,
    ...outcome,
  })
  try {
    const order = { rolloutId, ...toOrder(row, parts) }
    return ended(outcomeOf(await trainer.run(order, { server, ...hooks })))
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    return ended(notRun(error))
  }
}

/** What a run comes to, without the facts that it began with. */
type Outcome = Omit<RowResult, 'rowIndex' | 'rolloutId' | 'durationMs'>

function toOrder(row: DatasetRow, { flags }: RowRunnerParts): LoopOrder {
  const { maxTurns, maxTokens, temperature } = flags
  return {
    messages: row.initialMessages,
    completionParams: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    },
    maxTurns,
    metadata: {
      ...row.otherColumns,
      ...row.metadata,
      ...(row.label === null ? {} : { ground_truth: row.label }),
      row_index: row.sourceRowIndex,
      execution_mode: 'test',
    },
  }
}

function outcomeOf(outcome: LoopOutcome): Outcome {
  const { status, errorMessage: message, metrics, reward, finishReason, finalMessages } = outcome
  return {
    error: status === 'success' ? null : (message ?? 'no error message'),
    reward,
    finishReason,
    promptTokens: metrics?.prompt_tokens ?? 0,
    completionTokens: metrics?.response_tokens ?? 0,
    llmCalls: metrics?.num_llm_calls ?? 0,
    finalMessages,
  }
}

function notRun(error: OsmosisError): Outcome {
  return {
    // Of a refusal, what the loop's server gave as the reason: the rest is protocol.
    error: error.status === undefined ? error.message : errorMessage(error.cause),
    reward: null,
    finishReason: null,
    promptTokens: 0,
    completionTokens: 0,
    llmCalls: 0,
    finalMessages: [],
  }
}
