import { wrongIdsOf } from '@osmosis/protocol/trajectory'

import { fail, ok, warn, type CheckFinding } from '../finding.ts'
import { textOf, type Answer } from './asked-endpoint.ts'

export const parserAdvice =
  'Start vLLM with --enable-auto-tool-choice and the --tool-call-parser of the model, e.g. hermes for Qwen.'

/** Whether an answer has all that an update needs of it: its token ids, and a logprob for each token. */
export function tokenFindings(answer: Answer): CheckFinding[] {
  return [idFinding(answer), logprobFinding(answer)]
}

function idFinding({ prompt_token_ids: prompt, choices: [choice], usage }: Answer): CheckFinding {
  const ids = choice?.token_ids
  if (!ids || !prompt) {
    return fail(
      'token ids',
      `The answer has no ${ids ? 'prompt_token_ids' : 'choices[0].token_ids'}, though the request had return_token_ids: true.`,
      'Use an endpoint that returns them, such as vLLM 0.10.2 or newer. Without them nothing can be trained.',
    )
  }
  const wrong = wrongIdsOf({ promptTokenIds: prompt, completionTokenIds: ids, usage })
  if (wrong !== undefined) {
    return fail(
      'token ids',
      `These are not the ids of the whole answer: ${wrong.replace('the policy', 'the endpoint')}.`,
      'A parser of the server swallows tokens: update the server, or start it without that parser. Such answers are not trained.',
    )
  }
  return ok('token ids', `${prompt.length} of the prompt, ${ids.length} of the answer`)
}

function logprobFinding({ choices: [choice], usage }: Answer): CheckFinding {
  const logprobs = choice?.logprobs?.content?.length
  if (logprobs === undefined) {
    return fail(
      'logprobs',
      'The answer has no choices[0].logprobs, though the request had logprobs: true.',
      'Use an endpoint that returns them; vLLM does unless --max-logprobs is 0.',
    )
  }
  const counted = usage?.completion_tokens ?? logprobs
  // The token that ends an answer may be counted and not listed.
  const tokens = choice?.token_ids?.length ?? (logprobs === counted - 1 ? logprobs : counted)
  if (tokens === logprobs) return ok('logprobs', 'one for each token of the answer')
  return fail(
    'logprobs',
    `The answer has ${logprobs} logprobs for ${tokens} tokens.`,
    'Each token needs its own: switch off whatever removes tokens from the answer, such as stop strings.',
  )
}

/** Whether the tool that the prompt names was called, and the call was parsed. */
export function toolFinding({ choices }: Answer): CheckFinding {
  const message = choices[0]?.message
  const text = textOf(message)
  if (message?.tool_calls?.length) return ok('tool calls', 'are parsed')
  if (/<tool_call>|<function=|<\|python_tag\|>|"name"\s*:\s*"read_note"/.test(text)) {
    return fail(
      'tool calls',
      `The model called the tool in its text, and the endpoint did not parse it: ${shortened(text)}`,
      parserAdvice,
    )
  }
  return warn(
    'tool calls',
    `The model did not call the tool that the prompt names. It said: ${shortened(text)}`,
    'Try a larger model, or check that its chat template has tools.',
  )
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > 200 ? `${line.slice(0, 200)} …` : line
}
