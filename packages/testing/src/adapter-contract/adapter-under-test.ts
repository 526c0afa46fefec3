import type { ContractRule } from './contract-rules.ts'

/** A tool the way every framework has it in some form. */
export interface ContractTool {
  readonly name: string
  readonly description: string
  /** JSON schema of an object. What the policy sends need not keep to it; do not make it strict. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly execute: (input: unknown) => string
}

/** One run of an agent. */
export interface ContractRun {
  /** Name of the sample. */
  readonly name: string
  /** The only message of the user. */
  readonly prompt: string
  readonly tools?: readonly ContractTool[]
  /** The user's own signal, to be handed to the framework in its own way. */
  readonly signal?: AbortSignal
}

/** What an adapter brings to {@link runAdapterContract}. */
export interface AdapterUnderTest {
  /**
   * Builds an agent inside the current rollout, as a user of the framework would, and runs it to
   * its end, at least ten model calls long if need be. Resolves with its last text; rejects with
   * what the framework throws.
   */
  run(run: ContractRun): Promise<string>
  /** Makes an agent (or session) of this name in the current rollout, without a model call. */
  construct(name: string): unknown
  /** Uses the placeholder model outside of a rollout, as a newcomer may do. */
  callPlaceholder(): unknown
  /** Rules the framework cannot keep, each with the reason; their cases are skipped. */
  readonly exempt?: Readonly<Partial<Record<ContractRule, string>>>
  /** Whether the policy of the suite streams. Default: true. */
  readonly streams?: boolean
  /** How many rollouts of two agents run at once to prove `never-crosses`. Default: 400. */
  readonly concurrentRollouts?: number
}

/** The proof of one rule: resolves when the adapter keeps it. */
export type ContractCase = (adapter: AdapterUnderTest) => Promise<void>
