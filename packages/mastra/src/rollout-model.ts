import type { MastraModelConfig } from '@mastra/core/llm'
import {
  rolloutModel as policyModel,
  type RolloutLanguageModel,
  type RolloutModelSettings,
} from '@osmosis/ai-sdk'
import { errorMessage } from '@osmosis/core'
import { APICallError } from 'ai'

/** The policy as a model of Mastra, in the form that the installed `@mastra/core` works with. */
export type MastraRolloutModel = Extract<MastraModelConfig, { specificationVersion: 'v3' }>

/**
 * Settings of {@link rolloutModel}: those of the model of `@osmosis/ai-sdk`. Sampling settings are
 * defaults; `modelSettings` of an agent or a call win.
 */
export type MastraModelSettings = Omit<RolloutModelSettings, 'fallback'>

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
export function rolloutModel(settings: string | MastraModelSettings = {}): MastraRolloutModel {
  // Mastra's copy of these types and that of `ai` differ in details; at run time they agree.
  return new PolicyModel(policyModel(settings)) as unknown as MastraRolloutModel
}

type MastraCall = Parameters<MastraRolloutModel['doGenerate']>[0]
type PolicyCall = Parameters<RolloutLanguageModel['doGenerate']>[0]
type PolicyAnswer = Awaited<ReturnType<RolloutLanguageModel['doGenerate']>>

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
      return await this.#policy.doGenerate(policyCall(call))
    } catch (error) {
      throw call.abortSignal?.aborted ? error : notRetryable(error)
    }
  }

  doStream(call: MastraCall): ReturnType<RolloutLanguageModel['doStream']> {
    return this.#policy.doStream(policyCall(call))
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
