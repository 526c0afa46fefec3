import { OsmosisError } from '@osmosis/core'
import { isFullContext } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

const refusal = (
  status: number,
  message: string,
  more: { endpointCode?: string; endpointType?: string } = {},
) =>
  new OsmosisError('policy_http_error', `The policy endpoint answered ${status}: ${message}`, {
    status,
    ...more,
  })

// In the words of the servers.
it.each([
  [
    'vLLM',
    400,
    "This model's maximum context length is 4096 tokens. However, you requested 5123 tokens (4099 in the messages, 1024 in the completion). Please reduce the length of the messages or completion.",
  ],
  [
    'vLLM, of the answer',
    400,
    "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 2048 tokens and your request has 1500 input tokens (1000 > 2048 - 1500).",
  ],
  [
    'vLLM, of the prompt',
    400,
    'The decoder prompt (length 5123) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.',
  ],
  [
    'SGLang',
    400,
    "The input (5123 tokens) is longer than the model's context length (4096 tokens).",
  ],
  [
    'SGLang, of both',
    400,
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5123 tokens.",
  ],
  [
    'llama.cpp',
    400,
    'request (5123 tokens) exceeds the available context size (4096 tokens), try increasing it',
  ],
  [
    'TGI',
    422,
    'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5123 `inputs` tokens and 1024 `max_new_tokens`',
  ],
  [
    'TGI, of the prompt',
    422,
    'Input validation error: `inputs` must have less than 4096 tokens. Given: 5123',
  ],
  ['Anthropic', 400, 'prompt is too long: 208310 tokens > 200000 maximum'],
  [
    'Anthropic, of the size',
    413,
    'input length and max_tokens exceed context limit: 199000 + 8000 > 200000',
  ],
  [
    'Gemini',
    400,
    'The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).',
  ],
  ['a gateway', 413, 'Too many tokens in the prompt'],
])('%s says that a conversation does not fit', (_server, status, message) => {
  expect(isFullContext(refusal(status, message))).toBe(true)
})

it.each([
  ['OpenAI', { endpointCode: 'context_length_exceeded' }],
  ['llama.cpp', { endpointType: 'exceed_context_size_error' }],
])('%s says it by a code', (_server, more) => {
  expect(isFullContext(refusal(400, 'no', more))).toBe(true)
})

it.each([
  [400, 'temperature must be at most 2'],
  [400, 'Invalid schema for function: the name is longer than 64 characters'],
  [413, 'Request Entity Too Large'],
  [400, 'Unknown parameter: context_window'],
  [429, 'You exceeded your current quota of tokens per minute'],
  [500, 'maximum context length exceeded'],
  [401, 'The token has exceeded its life time'],
])('%d %s is another refusal', (status, message) => {
  expect(isFullContext(refusal(status, message))).toBe(false)
})

it('errors of others are none', () => {
  expect(
    isFullContext(Object.assign(new Error('maximum context length exceeded'), { status: 400 })),
  ).toBe(false)
  expect(isFullContext(undefined)).toBe(false)
})
