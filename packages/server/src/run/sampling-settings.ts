/** Names of inference servers for settings of chat completions. */
const otherNames = new Map([
  ['max_new_tokens', 'max_tokens'],
  ['min_new_tokens', 'min_tokens'],
  ['sampling_seed', 'seed'],
])

/**
 * The sampling settings that a trainer may set: those of chat completions, and those that vLLM and SGLang
 * add. The agent decides about messages and tools, and reads only one answer (`n` is not allowed).
 */
const chatSettings = new Set([
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

/** The sampling parameters of a trainer. */
interface SamplingSettings {
  /** For the body of each model call. */
  readonly body: Readonly<Record<string, unknown>>
  /** Names that chat completions do not have. */
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
    if (!chatSettings.has(ours)) dropped.push(name)
    // If both names are given, that of chat completions wins.
    else if (isSet(value) && !(ours !== name && isSet(given?.[ours]))) body[ours] = value
  }
  return { body, dropped }
}

/** Null leaves the decision to the model's server. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null
}
