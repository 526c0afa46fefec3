import { runResponseSchema, type RunResponseBody } from '@osmosis/protocol/wire'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { post, runs } from '../../../test/kit/index.ts'
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
    // Few of the drawn bodies are valid.
    { numRuns: runs(100), examples: [[valid]] },
  )
  expect(seen).toStrictEqual(new Set([200, 422]))
  expect((await fetch(`${running.url}/health`)).status).toBe(200)
})
