import type { LoopOrder, LoopOutcome, ServerAddress, Trainer } from '@osmosis/controller'
import { errorMessage, isOsmosisError, type OsmosisError } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'

import type { TestFlags } from './test.ts'

/** The result of one row. */
export interface RowResult {
  readonly rowIndex: number
  readonly rolloutId: string
  /** Null for a success. */
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

/** What running a row needs. */
export interface RowRunnerParts {
  readonly trainer: Pick<Trainer, 'run'>
  /** The server of the loop. */
  readonly server: ServerAddress
  readonly flags: Pick<TestFlags, 'maxTurns' | 'maxTokens' | 'temperature'>
  readonly hooks?: Pick<
    NonNullable<Parameters<Trainer['run']>[1]>,
    'signal' | 'onAccepted' | 'onAnswer'
  >
}

/** Runs one row as a trainer does: one init, then the model calls of the loop, then its result. */
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

/** The result of a run, without the facts known before it. */
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
    // The cause of a refusal is the reason that the server of the loop gave.
    error: error.status === undefined ? error.message : errorMessage(error.cause),
    reward: null,
    finishReason: null,
    promptTokens: 0,
    completionTokens: 0,
    llmCalls: 0,
    finalMessages: [],
  }
}
