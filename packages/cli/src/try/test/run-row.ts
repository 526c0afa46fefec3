import type {
  Controller,
  LoopOrder,
  LoopOutcome,
  RolloutOutcome,
  ServerAddress,
  Trainer,
} from '@osmosis/controller'
import { errorMessage, isOsmosisError, type OsmosisError } from '@osmosis/core'
import type { DatasetRow } from '@osmosis/eval'
import { formatDuration } from '@osmosis/eval/analysis'

import { shortLine } from '../../command/terminal-text.ts'
import type { TestFlags } from '../test.ts'

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

/** What running a row of an agent loop needs. */
export interface LoopRunnerParts {
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
export async function runLoopRow(row: DatasetRow, parts: LoopRunnerParts): Promise<RowResult> {
  const { trainer, server, hooks = {} } = parts
  return timed(row, async (rolloutId) => {
    const order = { rolloutId, ...toOrder(row, parts) }
    return outcomeOf(await trainer.run(order, { server, ...hooks }))
  })
}

/** Runs one row of a workflow, with its grader. */
export async function runWorkflowRow(
  row: DatasetRow,
  controller: Pick<Controller, 'run'>,
  signal: AbortSignal,
): Promise<RowResult> {
  const { label, metadata } = row
  const initialMessages = row.initialMessages.map((message) => ({ ...message }))
  return timed(row, async (rolloutId) =>
    workflowOutcome(
      await controller.run({ rolloutId, initialMessages, label, metadata }, { signal }),
    ),
  )
}

function workflowOutcome(outcome: RolloutOutcome): Outcome {
  const { status, errorMessage: message, samples, usage, policyCalls } = outcome
  const trained = [...samples.values()].filter(({ removeSample }) => !removeSample)
  const rewards = trained.flatMap(({ reward }) => reward ?? [])
  const isWhole = rewards.length > 0 && rewards.length === trained.length
  return {
    error: status === 'success' ? null : (message ?? 'no error message'),
    reward: isWhole ? rewards.reduce((sum, one) => sum + one, 0) / rewards.length : null,
    finishReason: null,
    promptTokens: usage.promptTokens,
    completionTokens: usage.completionTokens,
    llmCalls: policyCalls,
    finalMessages: [],
  }
}

/** Runs a row under an id of its own; a rollout that cannot be started has failed. */
async function timed(
  row: DatasetRow,
  run: (rolloutId: string) => Promise<Outcome>,
): Promise<RowResult> {
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
    return ended(await run(rolloutId))
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    return ended(notRun(error))
  }
}

/** The result of a run, without the facts known before it. */
type Outcome = Omit<RowResult, 'rowIndex' | 'rolloutId' | 'durationMs'>

function toOrder(row: DatasetRow, { flags }: LoopRunnerParts): LoopOrder {
  const { maxTurns = 10, maxTokens, temperature } = flags
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

/** The result of a test run. */
export interface TestRun {
  readonly results: readonly RowResult[]
  /** Milliseconds. */
  readonly durationMs: number
  /** Why rows were not run; null when all were. */
  readonly stopReason: string | null
}

/** One line about a row: `[1/3] Row 0: OK (437 ms, 30 tokens, reward 1)`. */
export function rowLine(result: RowResult, number: number, total: number): string {
  const { rowIndex, reward } = result
  const facts = reward === null ? [] : [`reward ${reward}`]
  return `[${number}/${total}] ${outcomeText(`Row ${rowIndex}`, result, facts)}`
}

/** The lines at the end of a run. */
export function summaryLines({ results, durationMs, stopReason }: TestRun): string[] {
  const passed = results.filter(({ error }) => error === null)
  const rewards = passed.flatMap(({ reward }) => reward ?? [])
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  return [
    `Total: ${results.length}`,
    `Passed: ${passed.length}`,
    `Failed: ${results.length - passed.length}`,
    ...(rewards.length === 0
      ? []
      : [`Mean reward: ${mean.toFixed(3)} (${rewards.length} rewards)`]),
    `Duration: ${durationText(durationMs)}`,
    `Total tokens: ${totalTokens(results)}`,
    ...(stopReason === null ? [] : [`Stopped early. ${shortLine(stopReason)}`]),
  ]
}

/** The document that `--output` writes. */
export function toTestDocument({ results, durationMs, stopReason }: TestRun): object {
  const passed = results.filter(({ error }) => error === null).length
  return {
    summary: {
      total: results.length,
      passed,
      failed: results.length - passed,
      total_duration_ms: durationMs,
      total_tokens: totalTokens(results),
      stopped_early: stopReason !== null,
      ...(stopReason === null ? {} : { stop_reason: stopReason }),
    },
    results: results.map((result) => ({
      row_index: result.rowIndex,
      success: result.error === null,
      error: result.error,
      duration_ms: result.durationMs,
      token_usage: {
        prompt_tokens: result.promptTokens,
        completion_tokens: result.completionTokens,
        total_tokens: tokensOf(result),
        num_llm_calls: result.llmCalls,
      },
      reward: result.reward,
      finish_reason: result.finishReason,
    })),
  }
}

function totalTokens(results: readonly RowResult[]): number {
  return results.reduce((sum, result) => sum + tokensOf(result), 0)
}

/** `Row 0: OK (437 ms, 30 tokens)`, with more facts in the brackets, and the error of a failed row. */
function outcomeText(name: string, result: RowResult, moreFacts: readonly string[] = []): string {
  const { error, durationMs } = result
  const facts = [durationText(durationMs), `${tokensOf(result)} tokens`, ...moreFacts].join(', ')
  return error === null
    ? `${name}: OK (${facts})`
    : `${name}: FAILED (${facts}) - ${shortLine(error)}`
}

/** Prompt and answers together. */
function tokensOf({ promptTokens, completionTokens }: RowResult): number {
  return promptTokens + completionTokens
}

/** `437 ms`, `12.3 s`, `4 min 05 s`. */
function durationText(ms: number): string {
  return ms < 999.5 ? `${Math.round(ms)} ms` : formatDuration(ms)
}

type Message = Readonly<Record<string, unknown>>

/** Messages as readable lines, at least one for each. */
export function messageLines(messages: readonly Message[]): string[] {
  const names = toolNames(messages)
  return messages.flatMap((message) => linesOf(message, names))
}

function linesOf(message: Message, names: ReadonlyMap<unknown, string>): string[] {
  const { role, content, tool_call_id: callId } = message
  const who = role === 'tool' ? `tool ${names.get(callId) ?? ''}`.trimEnd() : String(role)
  const text = typeof content === 'string' ? content : JSON.stringify(content ?? null)
  const calls = toolCalls(message).map(({ name, args }) => `[${who}] calls ${name}(${args})`)
  return content === null && calls.length > 0 ? calls : [`[${who}] ${text}`, ...calls]
}

function toolNames(messages: readonly Message[]): Map<unknown, string> {
  return new Map(messages.flatMap(toolCalls).map(({ id, name }) => [id, name]))
}

function toolCalls(message: Message): { id: unknown; name: string; args: string }[] {
  const calls: unknown = message['tool_calls']
  if (!Array.isArray(calls)) return []
  return calls.map((call: unknown) => {
    const { id, function: called } = (call ?? {}) as { id?: unknown; function?: unknown }
    const { name, arguments: args } = (called ?? {}) as { name?: unknown; arguments?: unknown }
    return {
      id,
      name: String(name),
      args: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
    }
  })
}
