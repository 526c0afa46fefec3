import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { answerStream, sendJson, sendStream, runs } from '../../../test/kit/index.ts'
import { post, proxied } from './proxied.ts'

const asked = [{ role: 'user', content: 'go' }]
/** The paths of the dialects, bodies around a conversation, and the field that has it. */
const dialects = [
  ['/v1/chat/completions', (messages: object[]) => ({ messages }), 'messages'],
  ['/v1/messages', (messages: object[]) => ({ max_tokens: 5, messages }), 'messages'],
  ['/v1/responses', (input: object[]) => ({ input }), 'input'],
] as const

interface Refused {
  readonly error: { readonly code?: unknown; readonly type?: unknown; readonly message: string }
}

const word = fc.stringMatching(/^[a-z][\w.-]{0,40}$/)
const refusals = fc.record({
  status: fc.constantFrom(400, 401, 403, 404, 413, 422),
  code: word,
  type: word,
  isFlat: fc.boolean(),
})

describe.each(dialects)('%s', (path, bodyOf, field) => {
  it('gives the agent the status, code and words with which the policy refused', async () => {
    let refusal = { status: 400, body: {} as object }
    const { proxy } = await proxied((response) => sendJson(response, refusal.status, refusal.body))
    await fc.assert(
      fc.asyncProperty(refusals, fc.boolean(), async ({ status, code, type, isFlat }, stream) => {
        const error = { message: 'The prompt is too long.', type, code }
        refusal = { status, body: isFlat ? { object: 'error', ...error } : { error } }
        const answer = await fetch(
          `${proxy.anthropicUrl}${path}`,
          post({ ...bodyOf(asked), stream }),
        )
        const { error: shown } = (await answer.json()) as Refused
        expect(answer.status).toBe(status)
        expect(shown.code).toBe(code)
        expect(shown.message).toContain('The prompt is too long.')
        // Anthropic's clients know a closed list of types.
        const isKept = path === '/v1/messages' || shown.type === type
        expect(isKept).toBe(true)
      }),
      { numRuns: runs(40) },
    )
  })

  it('names the field of an empty conversation, and asks nothing of the policy', async () => {
    const { policy, proxy } = await proxied((response) => sendStream(response, answerStream('ok')))
    const answer = await fetch(`${proxy.anthropicUrl}${path}`, post(bodyOf([])))
    expect(answer.status).toBe(400)
    const { error } = (await answer.json()) as Refused
    expect(error.message).toContain(`${field}: expected at least one message`)
    expect(policy.requests).toEqual([])
  })
})

it('an error with a code that is no word keeps our own', async () => {
  const { proxy } = await proxied((response) =>
    sendJson(response, 400, { error: { message: 'no', code: 400, type: 'two words' } }),
  )
  const answer = await fetch(`${proxy.anthropicUrl}/v1/chat/completions`, post({ messages: asked }))
  expect(await answer.json()).toMatchObject({
    error: { code: 'policy_http_error', type: 'invalid_request_error' },
  })
})
