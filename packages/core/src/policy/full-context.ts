import { isOsmosisError } from '../errors.ts'

/** Codes and types of OpenAI and its like, llama.cpp, gateways, and the learners of this project. */
const codes = new Set([
  'context_length_exceeded',
  'context_window_exceeded',
  'context_limit_exceeded',
  'exceed_context_size_error',
  'model_context_window_exceeded',
  'prompt_too_long',
  'input_too_long',
])

const tooLong = /\b(?:prompt|input|conversation|messages?) (?:is|are) too (?:long|large)\b/i
/** What a refusal calls the context, and what it says of it. Both have to be there. */
const context =
  /\b(?:context|sequence|model|input|prompt|inputs?)[ _-](?:length|window|size|limit|tokens?)\b|\b(?:maximum|max)[ _](?:model|context|input|sequence)\b|\b(?:token|tokens)\b|\bprompt\b/i
const exceeded =
  /\bexceed(?:s|ed|ing)?\b|\b(?:too|longer|larger|greater) (?:long|large|than)\b|\btoo many\b|\bmaximum (?:context|model|sequence|input) length (?:is|of)\b|\bmust (?:be (?:<=|less than|at most)|have less than)/i

/**
 * Whether the policy's endpoint refused a call because its messages, with the answer that was asked for, do not fit into
 * the context of the model. Servers agree neither on a status nor on a code: vLLM, SGLang and OpenAI answer 400, TGI 422,
 * others 413, and all of them say it in words.
 */
export function isFullContext(error: unknown): boolean {
  if (!isOsmosisError(error) || error.code !== 'policy_http_error') return false
  const { status, endpointCode = '', endpointType = '', message } = error
  if (status !== 400 && status !== 413 && status !== 422) return false
  if (codes.has(endpointCode) || codes.has(endpointType)) return true
  return tooLong.test(message) || (context.test(message) && exceeded.test(message))
}
