/** Fields of a request that hold its answer to a form whenever they are set: those of vLLM, SGLang and llama.cpp. */
const formFields = [
  'structured_outputs',
  'guided_json',
  'guided_regex',
  'guided_choice',
  'guided_grammar',
  'regex',
  'ebnf',
  'grammar',
  'json_schema',
  'structural_tag',
]

/**
 * What in a request holds its answer to a form, by the names of the fields; `tools.strict` stands for a tool with
 * `strict: true`. A server that masks tokens for it gives the logprobs of the masked distribution (vLLM does: its
 * `processed_logprobs` and `raw_logprobs` alike), which are not those of the policy.
 */
export function answerConstraints(request: Readonly<Record<string, unknown>>): string[] {
  const { tools, tool_choice: choice, response_format: format } = request
  const isForced = choice !== undefined && choice !== null && choice !== 'auto' && choice !== 'none'
  const type = (format as { type?: unknown } | null | undefined)?.type
  return [
    ...(Array.isArray(tools) && tools.some(isStrict) ? ['tools.strict'] : []),
    ...(isForced ? ['tool_choice'] : []),
    ...(type !== undefined && type !== 'text' ? ['response_format'] : []),
    ...formFields.filter((name) => request[name] !== undefined && request[name] !== null),
  ]
}

function isStrict(tool: unknown): boolean {
  return (tool as { function?: { strict?: unknown } } | null)?.function?.strict === true
}
