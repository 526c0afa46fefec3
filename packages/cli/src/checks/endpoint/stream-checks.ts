import { fail, ok, warn, type CheckFinding } from '../finding.ts'
import { tokenFindings, toolFinding } from './answer-checks.ts'
import { adviceOf, RefusedRequest, type Answer, type Endpoint } from './asked-endpoint.ts'

/** How often a model may leave out the call that it made before: it samples. */
const mostTries = 3

const names: Readonly<Record<string, string>> = {
  'token ids': 'stream ids',
  logprobs: 'stream logprobs',
  'tool calls': 'stream calls',
}

const whoStreams = 'Rollouts stream, but for those of Agent Lightning.'
const advice = `${whoStreams} Servers lose tokens where a parser of tool calls or thinking holds chunks back, and gateways drop what they do not know of a chunk: update it, or start it without that parser.`

/**
 * What a streamed answer lacks of what an answer in one piece has, as rollouts stream.
 *
 * @param request - that of the answer in one piece
 * @param before - the findings of that answer
 */
export async function streamFindings(
  endpoint: Endpoint,
  request: Readonly<Record<string, unknown>>,
  before: readonly CheckFinding[],
): Promise<CheckFinding[]> {
  try {
    return await lostInStream(endpoint, request, before)
  } catch (error) {
    if (!(error instanceof RefusedRequest)) throw error
    const message = `The endpoint refuses to stream what it answered in one piece. ${error.message}`
    return [fail('stream', message, `${whoStreams} ${adviceOf(error)}`)]
  }
}

async function lostInStream(
  endpoint: Endpoint,
  request: Readonly<Record<string, unknown>>,
  before: readonly CheckFinding[],
): Promise<CheckFinding[]> {
  const wasFine = new Set(before.filter(({ level }) => level === 'ok').map(({ check }) => check))
  let answer = await endpoint.streamed(request)
  for (let tries = 1; wasFine.has('tool calls') && tries < mostTries; tries += 1) {
    if (toolFinding(answer).level !== 'warn') break
    answer = await endpoint.streamed(request)
  }
  const lost = [...tokenFindings(answer), toolFinding(answer)].filter(
    ({ check, level }) => level !== 'ok' && wasFine.has(check),
  )
  const findings = lost.map(({ level, check, message }) => {
    const text = `Only when it streams: ${message}`
    const name = names[check] ?? check
    return level === 'warn' ? warn(name, text, advice) : fail(name, text, advice)
  })
  if (findings.length > 0) return findings
  return [usageFinding(answer, wasFine)]
}

/** Whether it can be seen that a stream has all ids. */
function usageFinding(
  { usage, choices: [choice] }: Answer,
  wasFine: ReadonlySet<string>,
): CheckFinding {
  if (!wasFine.has('token ids') || typeof usage?.completion_tokens === 'number') {
    return ok('stream', 'has what an answer in one piece has')
  }
  return warn(
    'stream',
    `A streamed answer has ${choice?.token_ids?.length ?? 0} token ids, and no usage that counts its tokens.`,
    'Ids that are lost on the way cannot be noticed. Have the endpoint heed stream_options.include_usage.',
  )
}
