import type { CallOptions, RolloutLanguageModel } from './language-model-types.ts'
import { providerName } from './wire-conversion.ts'

/**
 * Settings of `rolloutModel`. Sampling settings are defaults: those of `generateText`,
 * `streamText` or an agent win.
 */
export interface RolloutModelSettings {
  /** The sample id of the model's calls; default: a random one for each model object. */
  name?: string | undefined
  temperature?: number | undefined
  topP?: number | undefined
  /** Sent as `top_k`. */
  topK?: number | undefined
  frequencyPenalty?: number | undefined
  presencePenalty?: number | undefined
  maxOutputTokens?: number | undefined
  seed?: number | undefined
  stopSequences?: string[] | undefined
  /** More fields of the request body, sent as they are: `min_p`, `logprobs`, … */
  extraBody?: Readonly<Record<string, unknown>> | undefined
  /** Answers outside of rollouts, with settings of its own, so that one program serves both. */
  fallback?: RolloutLanguageModel | undefined
}

/** What is asked when a call leaves something open. */
export function withDefaults(
  {
    name: _name,
    fallback: _fallback,
    extraBody,
    topK: defaultTopK,
    ...defaults
  }: RolloutModelSettings,
  { topK = defaultTopK, providerOptions, ...options }: CallOptions,
): CallOptions {
  return {
    ...definedFields(defaults),
    ...definedFields(options),
    providerOptions: {
      ...providerOptions,
      // What stands here goes into the body. The SDK itself would leave `topK` out.
      [providerName]: {
        ...(topK === undefined ? {} : { top_k: topK }),
        ...extraBody,
        ...providerOptions?.[providerName],
      },
    },
  } as CallOptions
}

function definedFields<T extends object>(fields: T): Partial<T> {
  const defined = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(defined) as Partial<T>
}
