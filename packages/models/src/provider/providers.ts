/** A provider of models that the AI SDK has a package for. */
export interface Provider {
  /** As written in front of the slash. */
  readonly name: string
  readonly package: string
  /** The environment variable with its key, as that package has it. */
  readonly keyVariable: string
}

const providers: ReadonlyMap<string, Provider> = new Map(
  (
    [
      ['anthropic', 'ANTHROPIC_API_KEY'],
      ['cerebras', 'CEREBRAS_API_KEY'],
      ['cohere', 'COHERE_API_KEY'],
      ['deepseek', 'DEEPSEEK_API_KEY'],
      ['fireworks', 'FIREWORKS_API_KEY'],
      ['google', 'GOOGLE_GENERATIVE_AI_API_KEY'],
      ['groq', 'GROQ_API_KEY'],
      ['mistral', 'MISTRAL_API_KEY'],
      ['openai', 'OPENAI_API_KEY'],
      ['togetherai', 'TOGETHER_API_KEY'],
      ['xai', 'XAI_API_KEY'],
    ] as const
  ).map(([name, keyVariable]) => [name, { name, package: `@ai-sdk/${name}`, keyVariable }]),
)

/** Names of the providers that can be in front of the slash. */
export const providerNames: readonly string[] = [...providers.keys()]

/**
 * Takes a name like `openai/gpt-5-mini` apart; undefined for any other, such as `Qwen/Qwen3-8B`, which
 * is the name of a model and no provider's.
 */
export function providerOf(
  name: string,
): { readonly provider: Provider; readonly modelId: string } | undefined {
  const [, prefix = '', modelId = ''] = /^([a-z]+)\/(.+)$/s.exec(name) ?? []
  const provider = providers.get(prefix)
  return provider && { provider, modelId }
}
