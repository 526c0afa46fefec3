import { createPolicyEndpoint, scriptedPolicy, type PolicyAccess } from '@osmosis/controller'
import { expect, it } from 'vitest'

import { statusAndBody } from '../../../../test/kit/index.ts'

const policy = scriptedPolicy(() => 'yes')

async function ask({ chatCompletionsUrl, llmApiKey }: PolicyAccess): Promise<unknown> {
  const response = await fetch(`${chatCompletionsUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${llmApiKey}`, 'x-sample-id': 'main' },
    body: '{"messages":[]}',
  })
  const { status, body } = await statusAndBody(response)
  const { choices, error } = body as {
    choices?: [{ message: { content: string } }]
    error?: { code: string }
  }
  return [status, choices?.[0].message.content ?? error?.code]
}

it('answers the model calls of admitted rollouts, until they end', async () => {
  await using endpoint = await createPolicyEndpoint({ policy })
  const access = endpoint.admit('r1')
  expect(await ask(access)).toStrictEqual([200, 'yes'])
  expect(access).toMatchObject({ policyCalls: 1, rolloutId: 'r1' })
  expect(access.usage.totalTokens).toBeGreaterThan(0)
  expect(await ask({ ...access, llmApiKey: 'guessed' })).toStrictEqual([401, 'invalid_api_key'])
  const unknown = access.chatCompletionsUrl.replace('r1', 'r2')
  expect(await ask({ ...access, chatCompletionsUrl: unknown })).toStrictEqual([
    404,
    'rollout_not_found',
  ])
  access.end()
  access.end()
  expect(await ask(access)).toStrictEqual([410, 'rollout_ended'])
  expect(() => endpoint.admit('r1')).toThrow('already in use')
})

it('breaks off model calls when it is closed', async () => {
  const stuck = { name: 'stuck', respond: () => new Promise<Response>(() => {}) }
  const endpoint = await createPolicyEndpoint({ policy: stuck })
  const access = endpoint.admit('r1')
  const asking = ask(access).catch(() => 'cut off')
  await endpoint.close()
  await endpoint.close()
  expect(['cut off', expect.anything()]).toContainEqual(await asking)
})
