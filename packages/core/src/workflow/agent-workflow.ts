import { implementsBranded } from './branded-class.ts'
import type { MetadataOf } from './metadata-schema.ts'

const brand = Symbol.for('osmosis.agent-workflow')

/** The attempts at one row that are compared with one another, and which of them a rollout is. */
export interface RolloutGroup {
  /** The same for all attempts of the group, and for no other. */
  readonly id: string
  /** Which attempt it is, from 1. */
  readonly attempt: number
  /** How many attempts there are; absent where whoever asks does not say. */
  readonly size?: number | undefined
}

/** What a workflow gets to work on. The reference answer is not part of it: graders see that. */
export interface AgentWorkflowContext<TConfig = unknown> {
  /** The row's prompt in chat completions form; a copy that may be changed. */
  readonly prompt: PromptMessage[]
  /** This rollout's own copy of the config the backend was given. */
  readonly config: TConfig
  /** The row's metadata: what the config's `metadata` schema made of it, else as it is; null when it has none. */
  readonly metadata: MetadataOf<TConfig>
  readonly rolloutId: string
  /** The group that the rollout is an attempt of; null without. */
  readonly group: RolloutGroup | null
  /** Aborted at the deadline or cancellation of the rollout; pass it to everything that can be aborted. */
  readonly signal: AbortSignal
  /** A folder for files worth keeping, made when first asked for; null when it cannot be made. */
  readonly artifactsDir: string | null
}

/** What `AgentWorkflow.run` may return instead of registering a sample. */
export interface AgentWorkflowOutput {
  /** The conversation, in the form of the framework that held it. */
  readonly messages: readonly unknown[]
  /** Finite numbers, to be shown next to the reward. */
  readonly metrics?: Readonly<Record<string, number>>
}

/**
 * What an agent does with one row of a dataset. Subclass it, build your agent inside
 * {@link AgentWorkflow.run} and run it there: agents made inside find the rollout by themselves.
 * One instance serves one rollout.
 */
export abstract class AgentWorkflow<TConfig = unknown> {
  static readonly [brand] = true
  readonly config: TConfig

  constructor(config: TConfig) {
    this.config = config
  }

  /**
   * Produces the rollout's samples. Agents and sessions of an adapter register theirs. A loop of your
   * own may return its conversation instead, as a list of chat messages or as an
   * {@link AgentWorkflowOutput}: that becomes the rollout's only sample, with the id `sample`. Its
   * model calls go through `requireRolloutContext(…).policy('sample')`. Whatever else is returned
   * means nothing.
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
 * One message of a dataset row's prompt, in chat completions form: a `role` and a `content`.
 * Loosely typed on purpose: it has to be assignable to every framework's own message type, so that
 * `ctx.prompt` can be handed on as it is.
 */
export interface PromptMessage {
  // oxlint-disable-next-line typescript/no-explicit-any
  role: any
  // oxlint-disable-next-line typescript/no-explicit-any
  content: any
  // oxlint-disable-next-line typescript/no-explicit-any
  [key: string]: any
}
