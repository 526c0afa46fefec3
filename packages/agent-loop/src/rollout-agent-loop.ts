import type { RolloutContext } from './rollout-context.ts'
import type { RolloutRequest } from './rollout-request.ts'
import type { RolloutResult } from './rollout-result.ts'
import type { ToolInput } from './tools/function-tool.ts'

const brand = Symbol.for('osmosis.agent_loop')

/** A hand-written agent: users extend it and export one instance. */
export abstract class RolloutAgentLoop {
  static readonly [brand] = true
  readonly [brand] = true
  /** Says which agent this is, in health answers and logs. Not empty. */
  abstract readonly name: string

  /**
   * The tools of a rollout. Called once for each, before it is accepted; the trainer puts them
   * into every model call.
   */
  abstract getTools(request: RolloutRequest): readonly ToolInput[] | Promise<readonly ToolInput[]>

  /** Runs the agent and resolves with what `ctx.complete` or `ctx.error` gives. */
  abstract run(ctx: RolloutContext): Promise<RolloutResult>
}

/** True for an instance of {@link RolloutAgentLoop}, also of another installed copy. */
export function isRolloutAgentLoop(value: unknown): value is RolloutAgentLoop {
  return typeof value === 'object' && value !== null && brand in value
}

/** True for a class that extends {@link RolloutAgentLoop} of any installed copy, and implements `run`. */
export function isRolloutAgentLoopClass(value: unknown): value is new () => RolloutAgentLoop {
  return (
    typeof value === 'function' &&
    brand in value &&
    typeof (value.prototype as { run?: unknown } | undefined)?.run === 'function'
  )
}
