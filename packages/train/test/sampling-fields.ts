/** Fields that change an answer: no learner samples by them, and each names the first that it refuses. */
export const refusedFields: readonly (readonly [name: string, value: unknown])[] = [
  ['top_p', 0.9],
  ['top_p', '0.9'],
  ['top_k', 5],
  ['min_p', 0.1],
  ['presence_penalty', 1.5],
  ['frequency_penalty', -0.5],
  ['repetition_penalty', 1.3],
  ['logit_bias', { 5: 100 }],
  ['min_tokens', 3],
  ['ignore_eos', true],
  ['bad_words', ['no']],
  ['response_format', { type: 'grammar', grammar: 'a' }],
  ['response_format', 'json'],
  ['guided_regex', '[ab]'],
  ['tool_choice', 'required'],
  ['tool_choice', { type: 'function', function: { name: 'f' } }],
  ['tool_choice', { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } }],
  ['functions', [{ name: 'f' }]],
  ['function_call', { name: 'f' }],
]

/** The same fields with values that no learner refuses. */
export const neutralFields: readonly Readonly<Record<string, unknown>>[] = [
  {
    top_p: 1,
    top_k: -1,
    min_p: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    logit_bias: {},
    min_tokens: 0,
    ignore_eos: false,
    bad_words: [],
    response_format: { type: 'text' },
    tool_choice: 'auto',
    functions: [],
  },
  Object.fromEntries(refusedFields.map(([name]) => [name, null])),
  { logit_bias: { 5: 0 }, top_k: 0, function_call: 'auto' },
  // Frameworks ask so for a structured output, which the policy has to learn.
  { response_format: { type: 'json_object' } },
  { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {} } } },
]
