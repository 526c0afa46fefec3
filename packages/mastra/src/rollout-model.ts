import { APICallError } from '@ai-sdk/provider'
import type { MastraModelConfig } from '@mastra/core/llm'
import {
  policyModel,
  type RolloutLanguageModel,
  type RolloutModelSettings,
} from '@osmosis/ai-sdk/without-sdk'
import { definePolicyFaults, errorMessage } from '@osmosis/core'
import { nameForAgent } from '@osmosis/core/policy'
import { type FallbackModel, fallbackModel, ModelOrigin } from '@osmosis/core/workflow'

import { mastraFault } from './policy-faults.ts'

definePolicyFaults(mastraFault)

/** The policy as a model of Mastra, in the form that the installed `@mastra/core` works with. */
export type MastraRolloutModel = Extract<MastraModelConfig, { specificationVersion: 'v3' }>

/**
 * Settings of `rolloutModel`: those of the model of `@osmosis/ai-sdk`. Sampling settings are
 * defaults; `modelSettings` of an agent or a call win.
 */
export type MastraModelSettings = Omit<RolloutModelSettings, 'fallback'>

/** Settings with a model for outside of rollouts. */
export interface MastraSettingsWithFallback extends MastraModelSettings {
  /**
   * The model outside of rollouts, in any form that an agent takes, so that one program serves both. A function that
   * makes it is called when it is first needed.
   */
  fallback: FallbackModel<MastraModelConfig>
}

/**
 * The policy, and the `fallback` outside of rollouts: a function, as agents take it, that chooses between both.
 *
 * @param settings - with a `fallback`
 */
export function rolloutModel(settings: MastraSettingsWithFallback): () => MastraModelConfig
/**
 * The policy, whichever that is at the time, as a model of Mastra: for agents, sub-agents, networks
 * and the agents of workflow steps. The rollout is found when the model is called, so an agent at
 * the top of a module serves many rollouts at once.
 *
 * Errors of the policy are `OsmosisError`s, as the cause of what Mastra throws; what was worth retrying was retried. Outside of
 * rollouts calls fail with code `no_rollout_context`.
 *
 * @param settings - the name of the sample alone, or settings
 */
export function rolloutModel(settings?: string | MastraModelSettings): MastraRolloutModel
export function rolloutModel(
  settings: string | MastraModelSettings | MastraSettingsWithFallback = {},
): MastraRolloutModel | (() => MastraModelConfig) {
  const all = typeof settings === 'string' ? { name: settings } : settings
  const { fallback, ...others } = all as Partial<MastraSettingsWithFallback>
  const origin = new ModelOrigin()
  // Mastra's copy of these types and that of `ai` differ in details; at run time they agree.
  const policy = new PolicyModel(policyModel(others)) as unknown as MastraRolloutModel
  if (fallback === undefined) return policy
  return () => (origin.rollout ? policy : fallbackModel(fallback))
}

type MastraCall = Parameters<MastraRolloutModel['doGenerate']>[0]
type PolicyCall = Parameters<RolloutLanguageModel['doGenerate']>[0]
type PolicyAnswer = Awaited<ReturnType<RolloutLanguageModel['doGenerate']>>
type PolicyStream = Awaited<ReturnType<RolloutLanguageModel['doStream']>>
type StreamPart = PolicyStream['stream'] extends ReadableStream<infer T> ? T : never

/**
 * The model of the AI SDK in version 3 of the interface, which every release of Mastra 1 accepts. Its calls
 * differ from those of version 4 in the files of a prompt.
 */
class PolicyModel {
  readonly specificationVersion = 'v3'
  readonly provider: string
  readonly modelId: string
  readonly supportedUrls: RolloutLanguageModel['supportedUrls']
  readonly #policy: RolloutLanguageModel

  constructor(policy: RolloutLanguageModel) {
    this.#policy = policy
    this.provider = policy.provider
    this.modelId = policy.modelId
    this.supportedUrls = policy.supportedUrls
  }

  async doGenerate(call: MastraCall): Promise<PolicyAnswer> {
    try {
      const answer = await this.#policy.doGenerate(policyCall(call))
      return { ...answer, content: answer.content.map(withoutRepair) }
    } catch (error) {
      throw call.abortSignal?.aborted ? error : notRetryable(error)
    }
  }

  async doStream(call: MastraCall): Promise<PolicyStream> {
    const { stream, ...about } = await this.#policy.doStream(policyCall(call))
    return {
      ...about,
      stream: stream.pipeThrough(new TransformStream<StreamPart, StreamPart>(new WholeCalls())),
    }
  }
}

/** Mastra repairs malformed arguments of a call and runs it, unless no tool has its name. */
function withoutRepair<T extends { readonly type: string }>(part: T): T {
  if (part.type !== 'tool-call') return part
  const { toolName, input } = part as T & { toolName: string; input: string }
  const name = nameForAgent(toolName, input)
  return name === toolName ? part : { ...part, toolName: name, input: '{}' }
}

/** The parts of a stream, in which the input of a call comes when it is known whether it has to be renamed. */
class WholeCalls {
  readonly #inputs = new Map<string, StreamPart[]>()

  transform(part: StreamPart, to: TransformStreamDefaultController<StreamPart>): void {
    if (part.type.startsWith('tool-input-')) {
      const { id } = part as Extract<StreamPart, { type: 'tool-input-end' }>
      this.#inputs.set(id, [...(this.#inputs.get(id) ?? []), part])
      return
    }
    const call = withoutRepair(part)
    if (part.type === 'tool-call' && call === part) {
      for (const input of this.#inputs.get(part.toolCallId) ?? []) to.enqueue(input)
    }
    to.enqueue(call)
  }
}

function policyCall({ prompt, headers, ...call }: MastraCall): PolicyCall {
  return {
    ...call,
    headers: { 'user-agent': 'mastra', ...headers },
    prompt: prompt.map((message) =>
      typeof message.content === 'string' || !message.content.some(isFile)
        ? message
        : { ...message, content: message.content.map(withTaggedData) },
    ),
  } as PolicyCall
}

type Part = Exclude<MastraCall['prompt'][number]['content'], string>[number]
type FilePart = Extract<Part, { type: 'file' }>

function isFile(part: Part): part is FilePart {
  return part.type === 'file'
}

function withTaggedData(part: Part): object {
  if (!isFile(part)) return part
  const { data } = part
  // Mastra has web addresses as text.
  const isAddress = data instanceof URL || (typeof data === 'string' && /^https?:/.test(data))
  const tagged = isAddress ? { type: 'url', url: new URL(data) } : { type: 'data', data }
  return { ...part, data: tagged }
}

/** Mastra retries every error but this one: a second answer would be a second sample. */
function notRetryable(cause: unknown): APICallError {
  const message = errorMessage(cause)
  return new APICallError({ message, cause, url: '', requestBodyValues: {}, isRetryable: false })
}
