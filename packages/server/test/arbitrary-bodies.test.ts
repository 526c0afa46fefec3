import { runResponseSchema, type RunResponseBody } from '@osmosis/protocol/wire'
import * as fc from 'fast-check'
import { post } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { startServer } from './running-server.ts'

// The server would connect to strings that are URLs.
const value = fc.jsonValue({ maxDepth: 4 })
const mostlyValid = (
  valid: Record<string, unknown>,
  requiredKeys: string[] = [],
): fc.Arbitrary<unknown> =>
  fc
    .record(
      Object.fromEntries(
        Object.entries(valid).map(([key, good]) => [
          key,
          fc.oneof({ weight: 5, arbitrary: fc.constant(good) }, value),
        ]),
      ),
      { requiredKeys },
    )
    .chain((body) => fc.dictionary(fc.string(), value).map((extra) => ({ ...extra, ...body })))

it('answers every body for /rollout with a documented status, and stays up', async () => {
  await using running = await startServer()
  const { controller, url } = running
  const valid = controller.rolloutBody({
    rollout_id: undefined,
    metadata: { a: 1 },
    llm_api_key: 'k',
    agent_timeout_sec: 5,
    grader_timeout_sec: 5,
    extra_fields: {},
  })
  const required = ['initial_messages', 'chat_completions_url', 'completion_callback_url']
  const seen = new Set<number>()

  await fc.assert(
    fc.asyncProperty(
      fc.oneof(mostlyValid(valid, required), value, fc.string(), fc.json()),
      async (body) => {
        const response = await post(`${url}/rollout`, body)
        await response.body?.cancel()
        seen.add(response.status)
      },
    ),
    { numRuns: 100 },
  )
  // Two bodies may happen to share an id.
  seen.delete(409)
  expect(seen).toStrictEqual(new Set([202, 422]))
  expect((await fetch(`${url}/health`)).status).toBe(200)
})

it('answers every body for /rollout/cancel with a documented status', async () => {
  await using running = await startServer()
  const valid = { ids: ['a'], prefix: 'b', all: true }

  await fc.assert(
    fc.asyncProperty(fc.oneof(mostlyValid(valid), value, fc.string()), async (body) => {
      const response = await post(`${running.url}/rollout/cancel`, body)
      await response.body?.cancel()
      expect([200, 422]).toContain(response.status)
    }),
    { numRuns: 70 },
  )
})

it('answers every leased body for /rollout with a documented status, and stays up', async () => {
  await using running = await startServer()
  const { controller, url } = running
  const valid = {
    ...controller.rolloutBody({ metadata: { a: 1 }, llm_api_key: 'key', extra_fields: {} }),
    completion_callback_url: undefined,
    grade: false,
    agent_timeout_sec: 5,
    grader_timeout_sec: 5,
  }
  const required = ['initial_messages', 'chat_completions_url']
  const seen = new Set<number>()

  await fc.assert(
    fc.asyncProperty(mostlyValid(valid, required), fc.uuid(), async (body, id) => {
      const { completion_callback_url: _, ...leased } = body as Record<string, unknown>
      const response = await post(`${url}/rollout`, { rollout_id: id, ...leased })
      await response.body?.cancel()
      seen.add(response.status)
    }),
    { numRuns: 70 },
  )
  seen.delete(409)
  expect(seen).toStrictEqual(new Set([202, 422]))
  expect((await post(`${url}/rollout/cancel`, { all: true })).status).toBe(200)
})

it('answers every body for /run with a documented status, and a reward only for a success', async () => {
  await using running = await startServer({ run: true })
  const { chat_completions_url } = running.controller.rolloutBody()
  const valid = {
    question: 'Is it?',
    answer: 'yes',
    base_url: chat_completions_url,
    model: 'openai/model',
    sampling_params: { temperature: 1 },
    max_seq_len: 100,
    session_server_instance_id: 'one',
    trace: true,
  }
  const seen = new Set<number>()

  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        mostlyValid(valid, ['question', 'base_url', 'model']),
        value,
        fc.string(),
        fc.json(),
      ),
      async (body) => {
        const response = await post(`${running.url}/run`, body)
        seen.add(response.status)
        const answer = (await response.json()) as RunResponseBody
        if (response.status !== 200) return
        expect(runResponseSchema.safeParse(answer).error).toBeUndefined()
        expect('reward' in answer).toBe(answer.exit_status === 'completed')
      },
    ),
    { numRuns: 100 },
  )
  expect(seen).toStrictEqual(new Set([200, 422]))
  expect((await fetch(`${running.url}/health`)).status).toBe(200)
})

it('answers every body for /flush with a documented status', async () => {
  await using running = await startServer({ run: true })
  const valid = { session_server_instance_id: 'one' }

  await fc.assert(
    fc.asyncProperty(fc.oneof(mostlyValid(valid), value, fc.string()), async (body) => {
      const response = await post(`${running.url}/flush`, body)
      await response.body?.cancel()
      expect([200, 422]).toContain(response.status)
    }),
    { numRuns: 70 },
  )
})

it('answers every body for /drain with a documented status', async () => {
  await using running = await startServer()

  await fc.assert(
    fc.asyncProperty(
      fc.oneof(mostlyValid({ timeout_sec: 0 }), value, fc.string()),
      async (body) => {
        const response = await post(`${running.url}/drain`, body)
        await response.body?.cancel()
        expect([200, 422]).toContain(response.status)
      },
    ),
    { numRuns: 70 },
  )
})

it('answers every id and every lease with a documented status', async () => {
  await using running = await startServer()
  const { completion_callback_url: _, ...leased } = running.controller.rolloutBody()
  await (await post(`${running.url}/rollout`, leased)).body?.cancel()
  const headerText = fc.stringMatching(/^[\x21-\x7e]*$/)

  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.constant('r1'), fc.string({ minLength: 1 })),
      fc.option(headerText, { nil: undefined }),
      async (id, token) => {
        const response = await fetch(`${running.url}/rollout/${encodeURIComponent(id)}/result`, {
          headers: token === undefined ? {} : { 'x-osmosis-rollout-lease': token },
        })
        await response.body?.cancel()
        expect([403, 404, 422]).toContain(response.status)
      },
    ),
    { numRuns: 70 },
  )
})

it('answers every path with a documented status', async () => {
  await using running = await startServer()

  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('GET', 'POST', 'PUT', 'DELETE'),
      fc.array(
        fc.oneof(
          fc.constantFrom('rollout', 'cancel', 'status', 'health', '..', '%2e%2e', '%zz', '%00'),
          fc.string(),
        ),
        { maxLength: 5 },
      ),
      async (method, steps) => {
        const path = steps.map((step) => (step.startsWith('%') ? step : encodeURIComponent(step)))
        const response = await fetch(`${running.url}/${path.join('/')}`, { method })
        await response.body?.cancel()
        expect([200, 404, 405, 422]).toContain(response.status)
      },
    ),
    { numRuns: 70 },
  )
})
