import { errorMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import type { ChosenPolicy } from '../../inputs/choose-policy.ts'
import { fail, ok, warn, type CheckFinding } from '../finding.ts'
import { parserAdvice, tokenFindings, toolFinding } from './answer-checks.ts'
import { adviceOf, Endpoint, RefusedRequest, type Answer } from './asked-endpoint.ts'
import { samplingFinding, scaleFinding, temperatureFinding } from './sampling-checks.ts'
import { streamFindings } from './stream-checks.ts'

const readNote = {
  type: 'function',
  function: {
    name: 'read_note',
    description: 'Reads the note that the code is written on.',
    parameters: { type: 'object', properties: {} },
  },
}
const question: ChatMessage = {
  role: 'user',
  content: 'Call the tool read_note, then tell me the code that it returns.',
}

/**
 * Checks whether an endpoint gives trainers what they need: token ids and logprobs of every answer, also when it streams, parsed
 * tool calls, prompts that continue with the tokens of the turn before, and the temperature of the request.
 */
export async function endpointFindings(chosen: ChosenPolicy): Promise<CheckFinding[]> {
  const endpoint = new Endpoint(chosen)
  const findings: CheckFinding[] = []
  let first: Answer
  try {
    first = await endpoint.answer({ messages: [question], tools: [readNote] })
    findings.push(ok('endpoint', `${chosen.name} answered`))
  } catch (error) {
    // A server without a parser of tool calls refuses tools, and answers all else.
    const plain = await endpoint.answer({ messages: [question] }).catch(() => undefined)
    if (!(error instanceof RefusedRequest) || plain === undefined) {
      return [fail('endpoint', errorMessage(error), adviceOf(error))]
    }
    first = plain
    findings.push(
      ok('endpoint', `${chosen.name} answered`),
      fail('tool calls', `The endpoint refuses tools. ${error.message}`, parserAdvice),
    )
  }
  findings.push(...tokenFindings(first))
  const isRefused = findings.some(({ check }) => check === 'tool calls')
  if (!isRefused) findings.push(toolFinding(first))
  const tools = isRefused ? {} : { tools: [readNote] }
  const checks: readonly (readonly [string, () => Promise<CheckFinding | CheckFinding[]>])[] = [
    ['stream', () => streamFindings(endpoint, { messages: [question], ...tools }, findings)],
    ['prefixes', () => prefixFinding(endpoint, first, tools)],
    ['temperature', () => temperatureFinding(endpoint)],
    ['sampling', () => samplingFinding(endpoint)],
    ['logprob scale', () => scaleFinding(endpoint)],
  ]
  for (const [name, find] of checks) {
    // One call that fails says nothing about the others.
    const found = await find().catch((error: unknown) =>
      fail(name, errorMessage(error), adviceOf(error)),
    )
    findings.push(...[found].flat())
  }
  return findings
}

/** Whether the next prompt begins with all tokens of this turn, so that a conversation is one sequence. */
async function prefixFinding(
  endpoint: Endpoint,
  first: Answer,
  tools: Readonly<Record<string, unknown>>,
): Promise<CheckFinding> {
  const message = first.choices[0]?.message ?? {}
  const calls = first.choices[0]?.message.tool_calls ?? []
  const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id ?? '', content: 'ab' }))
  const next = results.length > 0 ? results : [{ role: 'user', content: 'Continue.' }]
  const said = [...(first.prompt_token_ids ?? []), ...(first.choices[0]?.token_ids ?? [])]
  const second = await endpoint.answer({
    messages: [question, { ...message, role: 'assistant' }, ...next],
    ...tools,
  })
  const prompt = second.prompt_token_ids
  if (said.length === 0 || !prompt) return warn('prefixes', 'Not checked: there are no token ids.')
  const other = said.findIndex((id, at) => prompt[at] !== id)
  if (other === -1) return ok('prefixes', 'the second turn continues the tokens of the first')
  const within = other < (first.prompt_token_ids?.length ?? 0) ? 'prompt' : 'answer'
  return warn(
    'prefixes',
    `The prompt of the second turn differs from the first turn at token ${other} of ${said.length}, within the ${within}.`,
    'The endpoint renders the history again. Each turn then trains as a sequence of its own, which costs time. A chat template that keeps what was said, thinking included, avoids it.',
  )
}
