import { preflightPolicy, type ChatModel } from '@osmosis/models'
import { expect, it } from 'vitest'

const { signal } = new AbortController()
const options = { endpoint: 'https://models.test/v1', keyVariable: 'TEST_KEY', signal }

function answering(
  ...answers: (readonly [status: number, body: unknown])[]
): ChatModel & { readonly received: Record<string, unknown>[] } {
  const received: Record<string, unknown>[] = []
  return {
    name: 'm1',
    received,
    respond: async ({ body }) => {
      received.push(body)
      const [status, answer] = answers[received.length - 1] ?? [500, 'too many requests']
      const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
      return new Response(text, { status })
    },
  }
}

const fine = { choices: [{ message: { role: 'assistant', content: 'ok' } }] }
const refused = (message: string, code?: string): unknown => ({ error: { message, code } })

it('is one call of 16 tokens', async () => {
  const model = answering([200, `data: ${JSON.stringify(fine)}\n\ndata: [DONE]\n\n`])
  expect(await preflightPolicy(model, options)).toBeNull()
  expect(model.received).toEqual([
    { messages: [{ role: 'user', content: 'Say ok.' }], max_tokens: 16, stream: true },
  ])
})

it('repeats the call with the name of the limit that the model requires', async () => {
  const other = refused("Unsupported parameter: use 'max_completion_tokens' instead.")
  const model = answering([400, other], [200, fine])
  expect(await preflightPolicy(model, options)).toBeNull()
  expect(model.received[1]).toMatchObject({ max_completion_tokens: 16 })
})

it('warns of a server that breaks off its answer, which may have restarted since', async () => {
  const body = new ReadableStream({
    start: (controller) => controller.error(new TypeError('other side closed')),
  })
  const model: ChatModel = { name: 'm1', respond: async () => new Response(body) }
  expect(await preflightPolicy(model, options)).toBe(
    'm1 at https://models.test/v1 broke off its answer to a first call of 16 tokens: other side closed.',
  )
})

it('is one call when a refusal for another reason names the other limit', async () => {
  const model = answering([503, refused('busy; max_completion_tokens: 4096')], [200, fine])
  expect(await preflightPolicy(model, options)).toContain('with 503: busy')
  expect(model.received).toHaveLength(1)
})

it.each([
  [
    401,
    refused('Incorrect API key provided'),
    'm1 at https://models.test/v1 refused a first call of 16 tokens with 401: Incorrect API key provided. Check the key in the environment variable TEST_KEY.',
  ],
  // LiteLLM, without a database and without a key.
  [
    400,
    JSON.stringify({
      error: { message: 'No connected db.', type: 'no_db_connection', code: '400' },
    }),
    'm1 at https://models.test/v1 refused a first call of 16 tokens with 400: No connected db. Check the key in the environment variable TEST_KEY.',
  ],
  [
    500,
    JSON.stringify({
      error: {
        message: 'Authentication Error, No api key passed in.',
        type: 'auth_error',
        code: '500',
      },
    }),
    'm1 at https://models.test/v1 refused a first call of 16 tokens with 500: Authentication Error, No api key passed in. Check the key in the environment variable TEST_KEY.',
  ],
  [
    404,
    refused('The model m1 does not exist.'),
    'm1 at https://models.test/v1 refused a first call of 16 tokens with 404: The model m1 does not exist. Check the name of the model and the base URL.',
  ],
  [
    429,
    refused('You exceeded your quota', 'insufficient_quota'),
    'm1 at https://models.test/v1 refused a first call of 16 tokens with 429: You exceeded your quota. Its account has nothing left to spend.',
  ],
  [
    200,
    '<html>Welcome</html>',
    'm1 at https://models.test/v1 answered a first call with something that is not a chat completion: <html>Welcome</html>. Check the base URL.',
  ],
])('fails with endpoint, model, answer and what to check: %i', async (status, body, message) => {
  await expect(preflightPolicy(answering([status, body]), options)).rejects.toMatchObject({
    code: 'policy_http_error',
    status,
    message,
  })
})

it('says how to set a key when none was sent', async () => {
  const model = answering([401, refused('no key')])
  await expect(preflightPolicy(model, { ...options, keyVariable: null })).rejects.toThrow(
    'with 401: no key. It asks for a key: name the environment variable that holds it, with --api-key-env or api_key_env in osmosis.toml.',
  )
})

it('names an address that cannot be reached', async () => {
  const model = answering([502, refused('The policy at x cannot be reached', 'policy_unreachable')])
  await expect(preflightPolicy(model, options)).rejects.toMatchObject({
    code: 'policy_unreachable',
    message:
      'The policy at x cannot be reached. Start what should answer there, or check the base URL.',
  })
})

it.each([429, 503])('warns of trouble that may pass: %i', async (status) => {
  expect(await preflightPolicy(answering([status, refused('busy')]), options)).toBe(
    `m1 at https://models.test/v1 refused a first call of 16 tokens with ${status}: busy.`,
  )
})

it('waits for an answer only so long, and no longer than its caller', async () => {
  const silent: ChatModel = {
    name: 'm1',
    respond: ({ signal: limit }) =>
      new Promise((_resolve, reject) => {
        limit.addEventListener('abort', () => reject(limit.reason as Error))
      }),
  }
  await expect(preflightPolicy(silent, { ...options, timeoutMs: 20 })).rejects.toMatchObject({
    code: 'policy_unreachable',
  })
  const caller = new AbortController()
  const check = preflightPolicy(silent, { ...options, signal: caller.signal })
  caller.abort(new Error('enough'))
  await expect(check).rejects.toThrow('enough')
})
