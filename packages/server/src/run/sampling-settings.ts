/** Names that inference servers have for settings of chat completions. */
const otherNames = new Map([
  ['max_new_tokens', 'max_tokens'],
  ['min_new_tokens', 'min_tokens'],
  ['sampling_seed', 'seed'],
])

/**
 * What a trainer may say about sampling: settings of chat completions, and those that vLLM and SGLang
 * add to them. What is asked, and with which tools, is the agent's; one answer is all it reads.
 */
const settings = new Set([
  'chat_template_kwargs',
  'enable_thinking',
  'frequency_penalty',
  'ignore_eos',
  'include_stop_str_in_output',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'min_p',
  'min_tokens',
  'no_stop_trim',
  'presence_penalty',
  'reasoning_effort',
  'repetition_penalty',
  'return_token_ids',
  'seed',
  'separate_reasoning',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'stop',
  'stop_regex',
  'stop_token_ids',
  'temperature',
  'thinking_token_budget',
  'top_k',
  'top_logprobs',
  'top_p',
  'truncate_prompt_tokens',
])

/** The sampling parameters of a trainer, by what becomes of them. */
export interface SamplingSettings {
  /** For the body of each model call. */
  readonly body: Readonly<Record<string, unknown>>
  /** Names of those that chat completions do not have. */
  readonly dropped: readonly string[]
}

/** Translates the sampling parameters of a trainer. */
export function toSamplingSettings(
  given: Readonly<Record<string, unknown>> | null | undefined,
): SamplingSettings {
  const body: Record<string, unknown> = {}
  const dropped: string[] = []
  for (const [name, value] of Object.entries(given ?? {})) {
    const ours = otherNames.get(name) ?? name
    if (!settings.has(ours)) dropped.push(name)
    // The name of chat completions counts where both are given.
    else if (isSaid(value) && !(ours !== name && isSaid(given?.[ours]))) body[ours] = value
  }
  return { body, dropped }
}

/** Null means that the server of the model decides. */
function isSaid(value: unknown): boolean {
  return value !== undefined && value !== null
}
