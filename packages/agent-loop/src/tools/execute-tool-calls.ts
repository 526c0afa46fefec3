import { activeTrace } from '@osmosis/core/tracing'
import { ConcurrencyLimiter } from '@osmosis/server/execution'

import { namesOfCall } from './tool-call-info.ts'
import { isToolErrorResult } from './tool-results.ts'

/** Options of {@link executeToolCalls}. */
export interface ExecuteToolCallsOptions {
  /** Maximum concurrent calls; default: all of them. */
  maxConcurrent?: number | undefined
  /** Calls that have not started are skipped when it aborts; pass `ctx.signal`. */
  signal?: AbortSignal | undefined
}

/**
 * Executes the tool calls of one answer concurrently and resolves with the results in the
 * order of the calls. When `execute` fails for one, it still waits for the others, so that
 * nothing continues unobserved; then it throws the first failure, in the order of the calls.
 *
 * @throws what `execute` threw; the reason of `signal` when it aborted; RangeError for a
 * `maxConcurrent` that is not a whole number of at least 1
 */
export async function executeToolCalls<Call, Result>(
  toolCalls: readonly Call[] | null | undefined,
  execute: (toolCall: Call) => Result | Promise<Result>,
  options: ExecuteToolCallsOptions = {},
): Promise<Result[]> {
  const { maxConcurrent, signal = new AbortController().signal } = options
  if (maxConcurrent !== undefined && !(Number.isInteger(maxConcurrent) && maxConcurrent >= 1)) {
    throw new RangeError(`maxConcurrent must be a whole number of at least 1, got ${maxConcurrent}`)
  }
  const limiter = new ConcurrencyLimiter(maxConcurrent ?? null)
  const settled = await Promise.allSettled(
    (toolCalls ?? []).map(async (toolCall) => {
      const release = await limiter.acquire(signal)
      try {
        return await inSpan(toolCall, async () => execute(toolCall))
      } finally {
        release()
      }
    }),
  )
  return settled.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  })
}

/** Runs a tool in its own span if the rollout is traced. */
async function inSpan<Result>(toolCall: unknown, run: () => Promise<Result>): Promise<Result> {
  const trace = activeTrace()
  if (trace === undefined) return run()
  const { toolCallId: id, name } = namesOfCall(toolCall)
  const tool = trace.tool(undefined, { name: name || 'unknown', id })
  if (tool === undefined) return run()
  try {
    const result = await tool.run(run)
    if (isToolErrorResult(result)) tool.fail()
    else tool.end()
    return result
  } catch (error) {
    tool.fail(error)
    throw error
  }
}
