import { RolloutContext } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]
const endpointNames = { url: 'base_url', key: 'api_key' }

/** Calls a policy that answers every call in this way. Returns the message of the error, and the number of calls. */
async function refused(
  status: number,
  body: object,
  init: { ownRoute?: boolean; apiKey?: string } = {},
): Promise<{ readonly message: string; readonly code: unknown; readonly calls: number }> {
  const policy = await startPolicyEndpoint((response) => sendJson(response, status, body))
  const { ownRoute, apiKey } = init
  const context = new RolloutContext({
    rolloutId: 'r',
    chatCompletionsUrl: policy.url,
    apiKey,
    endpointNames,
    wire: { ownRoute },
  })
  const thrown = (await context
    .policy('main')
    .complete({ messages })
    .catch((error: unknown) => error)) as { message: string; code: unknown }
  const message = thrown.message.replace(` (${policy.url}/chat/completions)`, '')
  return { message, code: thrown.code, calls: policy.requests.length }
}

const error = (message: string, more: object = {}): object => ({ error: { message, ...more } })

/** What servers answer about a model that they do not have. */
const unknownModels: readonly (readonly [server: string, body: object, words: string])[] = [
  [
    'vLLM, before 0.10',
    { object: 'error', message: 'The model `x` does not exist.', type: 'NotFoundError', code: 404 },
    'The model `x` does not exist.',
  ],
  [
    'vLLM',
    error('The model `x` does not exist.', { type: 'NotFoundError', param: 'model', code: 404 }),
    'The model `x` does not exist.',
  ],
  [
    'llama.cpp',
    error("model 'x' not found", { type: 'not_found_error', code: 404 }),
    "model 'x' not found",
  ],
  [
    'LiteLLM',
    error('litellm.NotFoundError: NotFoundError: OpenAIException - The model `x` does not exist.', {
      code: '404',
    }),
    'litellm.NotFoundError: NotFoundError: OpenAIException - The model `x` does not exist.',
  ],
  [
    'Ollama',
    error('model "x" not found, try pulling it first'),
    'model "x" not found, try pulling it first',
  ],
  [
    'OpenAI',
    error('It does not exist, or you have no access.', { code: 'model_not_found' }),
    'It does not exist, or you have no access.',
  ],
]

describe('a policy without the model', () => {
  it.each(unknownModels)('is quoted, and no address is suspected: %s', async (_, body, words) => {
    for (const ownRoute of [false, true]) {
      expect(await refused(404, body, { ownRoute })).toEqual({
        message: `The policy endpoint answered 404: ${words}`,
        code: 'policy_http_error',
        calls: 1,
      })
    }
  })
})

describe('a policy at another address', () => {
  it.each<[body: object, words: string]>([
    [{ detail: 'Not Found' }, ': Not Found.'],
    [error('File Not Found', { type: 'not_found_error' }), ': File Not Found.'],
    [
      error('Cannot POST /v1/models/chat/completions'),
      ': Cannot POST /v1/models/chat/completions.',
    ],
    [{}, ': {}.'],
  ])('is quoted, with the field that has the address: %j', async (body, words) => {
    expect(await refused(404, body)).toMatchObject({
      message: `The policy endpoint answered 404${words} base_url is a base URL: "/chat/completions" is appended to it.`,
    })
  })

  it('that belongs to the rollout has withdrawn it, in its own words', async () => {
    expect(await refused(404, error('no such session'), { ownRoute: true })).toMatchObject({
      message:
        'The trainer withdrew the rollout: its own policy route answered 404: no such session',
      code: 'withdrawn',
    })
  })
})

describe('a policy that refuses the key', () => {
  // Of the last three LiteLLM says nothing with the status: it answers as if it were broken.
  it.each<[status: number, body: object, words: string]>([
    [401, error('Invalid API Key'), 'Invalid API Key.'],
    [403, error('no'), 'no.'],
    [400, error('No connected db.', { type: 'no_db_connection', code: '400' }), 'No connected db.'],
    [
      500,
      error('Authentication Error, No api key passed in.', { type: 'auth_error', code: '500' }),
      'Authentication Error, No api key passed in.',
    ],
    [500, error('No api key passed in.'), 'No api key passed in.'],
  ])('with %i is asked once, and the message names the field: %j', async (status, body, words) => {
    const said = `The policy endpoint answered ${status}: ${words}`
    expect(await refused(status, body, { apiKey: 'a-wrong-key' })).toEqual({
      message: `${said} Check the API key that the rollout was sent with (api_key).`,
      code: 'policy_http_error',
      calls: 1,
    })
    expect(await refused(status, body)).toMatchObject({
      message: `${said} The rollout was sent without an API key (api_key).`,
      calls: 1,
    })
  })

  it.each([
    [500, error('CUDA error')],
    [500, error('The key of the cache is missing.')],
    [502, error('No api key passed in.')],
  ])('is not one that fails with %i: %j', async (status, body) => {
    const { message, calls } = await refused(status, body, { apiKey: 'a-key' })
    expect(message).not.toContain('API key')
    expect(calls).toBe(3)
  })
})
