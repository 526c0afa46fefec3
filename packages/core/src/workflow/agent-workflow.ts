import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.agent-workflow')

/** The group of attempts at one row, and the number of this rollout in it. */
export interface RolloutGroup {
  /** The same for all attempts of the group. */
  readonly id: string
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** How many attempts the group has; undefined when the request does not say. */
  readonly size?: number | undefined
}

/** Options of {@link AgentWorkflowContext.workFolder}. */
export interface WorkFolderOptions {
  /**
   * Files to store with the rollout when the workflow has ended, as patterns such as `**\/*.diff` below the folder: they are
   * copied to `artifactsDir`, where graders find them, also when they grade again. Links are left out.
   */
  readonly artifacts?: readonly string[]
  /** Keeps the folder of a rollout that failed; a warning of the process names it. Default: false. */
  readonly keepOnFailure?: boolean
  /** The folder that it is created in. Default: the one of the system for temporary files. */
  readonly parent?: string
}

/** The input of a workflow. The reference answer is not in it: only graders see that. */
export interface AgentWorkflowContext<TConfig = unknown> {
  /** The row's prompt in chat completions form; a copy that may be modified. */
  readonly prompt: PromptMessage[]
  /** This rollout's copy of the config. */
  readonly config: TConfig
  /** The row's metadata, parsed by the `metadata` schema of the config if it has one; null without metadata. */
  readonly metadata: MetadataOf<TConfig>
  readonly rolloutId: string
  /** Null when the rollout is not part of a group. */
  readonly group: RolloutGroup | null
  /** Aborted at the deadline or cancellation of the rollout; pass it to everything that can be aborted. */
  readonly signal: AbortSignal
  /** A folder for files to store with the rollout, created when first read; null when it cannot be created. */
  readonly artifactsDir: string | null
  /**
   * A fresh folder for an agent that writes files or runs commands, the same at each call. It is deleted when the
   * rollout is over, grading included. The options of the first call count.
   *
   * @throws OsmosisError with code `storage_error`
   */
  workFolder(options?: WorkFolderOptions): Promise<string>
}

/** What `AgentWorkflow.run` may return instead of registering a sample. */
export interface AgentWorkflowOutput {
  /** The conversation, in the form of the agent framework. */
  readonly messages: readonly unknown[]
  /** Finite numbers to show next to the reward. */
  readonly metrics?: Readonly<Record<string, number>>
}

/**
 * Runs an agent for one row of a dataset. Subclass it, and build and run your agent inside
 * {@link AgentWorkflow.run}: agents that are created there belong to the rollout. Each rollout has its own
 * instance.
 */
export abstract class AgentWorkflow<TConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /**
   * Produces the rollout's samples. Agents and sessions of an adapter register theirs. A loop of your own may
   * return its conversation instead, as a list of chat messages or as an {@link AgentWorkflowOutput}: that is
   * the rollout's only sample, with the id `sample`. Its model calls go through
   * `requireRolloutContext(…).policy('sample')`. Any other JSON data is `ctx.output` of graders, and everything else
   * that is returned, such as the result object of a framework, is ignored.
   */
  abstract run(ctx: AgentWorkflowContext<TConfig>): Promise<unknown>
}

/** A concrete subclass of {@link AgentWorkflow}. */
export type AgentWorkflowClass<TConfig = unknown> = new (config: TConfig) => AgentWorkflow<TConfig>

/** True for a class that extends AgentWorkflow (of any installed copy) and implements `run`. */
export function isAgentWorkflowClass(value: unknown): value is AgentWorkflowClass {
  return implementsBranded(value, brand, 'run')
}

/**
 * One message of a dataset row's prompt, in chat completions form: a `role` and a `content`. Loosely typed, so
 * that `ctx.prompt` is assignable to the message type of every framework.
 */
export interface PromptMessage {
  // oxlint-disable-next-line typescript/no-explicit-any
  role: any
  // oxlint-disable-next-line typescript/no-explicit-any
  content: any
  // oxlint-disable-next-line typescript/no-explicit-any
  [key: string]: any
}

/**
 * True for a class that extends the base class with this brand, of any installed copy of the package, and
 * implements its abstract method.
 */
export function implementsBranded(value: unknown, symbol: symbol, method: string): boolean {
  if (typeof value !== 'function' || !(symbol in value)) return false
  const prototype = value.prototype as Record<string, unknown> | undefined
  return typeof prototype?.[method] === 'function'
}
