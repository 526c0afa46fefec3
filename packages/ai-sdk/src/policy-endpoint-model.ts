import {
  type MetadataExtractor,
  OpenAICompatibleChatLanguageModel,
} from '@ai-sdk/openai-compatible'
import type { PolicyClient } from '@osmosis/core'
import { policyModelName } from '@osmosis/core/policy'

import type { CallOptions, StreamResult } from './language-model-types.ts'
import { refusalOf } from './policy-errors.ts'
import { recognisableArguments } from './wire-arguments.ts'

/** Name of the provider: the key of its `providerOptions` and `providerMetadata`. */
export const providerName = 'osmosis'

/** Asks the policy of one sample, always streaming. */
export interface PolicyEndpointModel {
  doStream(options: CallOptions): PromiseLike<StreamResult>
}

/** The SDK's own chat completions model, on top of the rollout's way to the policy. */
export function policyEndpointModel(policy: PolicyClient): PolicyEndpointModel {
  const url = new URL(policy.baseUrl)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/chat/completions`
  const model: unknown = new OpenAICompatibleChatLanguageModel(policyModelName, {
    provider: providerName,
    url: () => url.href,
    fetch: async (input, init) => {
      const response = await policy.fetch(input, init)
      if (response.ok) return response
      throw await refusalOf(response)
    },
    // Without, the schema of a structured output would not reach the model in any form.
    supportsStructuredOutputs: true,
    includeUsage: true,
    metadataExtractor: logprobsExtractor,
    transformRequestBody: (body) => ({
      ...body,
      messages: (body['messages'] as Parameters<typeof recognisableArguments>[0][]).map(
        recognisableArguments,
      ),
    }),
  })
  // The provider types of the user's `ai` and of this dependency are two copies that may differ in
  // details; at run time they are one specification.
  return model as PolicyEndpointModel
}

/** The SDK has no place for logprobs; they go where providers put what only they have. */
const logprobsExtractor: MetadataExtractor = {
  extractMetadata: async () => undefined,
  createStreamExtractor() {
    const logprobs: NonNullable<LogprobsChunk['choices'][0]['logprobs']>['content'] = []
    return {
      processChunk(chunk) {
        for (const { logprobs: more } of (chunk as LogprobsChunk).choices ?? []) {
          for (const entry of more?.content ?? []) logprobs.push(entry)
        }
      },
      buildMetadata: () => (logprobs.length > 0 ? { [providerName]: { logprobs } } : undefined),
    }
  },
}

interface LogprobsChunk {
  choices: { logprobs?: { content?: Record<string, string | number>[] | null } | null }[]
}
