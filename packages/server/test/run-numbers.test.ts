import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { sendJson, startPolicyEndpoint, tokenAnswer, runs } from '../../../test/kit/index.ts'
import { askPolicy, graderOf, startServer, workflowOf } from './running-server.ts'

/** Numbers as other languages write them: of any length, with zeros and exponents. */
const written = fc.oneof(
  fc.constantFrom(
    '9007199254740993',
    '1.0',
    '-0',
    '1e3',
    '1E+2',
    '1e400',
    '-1e999',
    '0.10',
    '123456789012345678901234567890',
  ),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.bigInt({ min: 0n, max: 10n ** 30n }).map(String),
      fc.option(fc.stringMatching(/^\d{1,20}$/), { nil: undefined }),
      fc.option(fc.stringMatching(/^[eE][+-]?\d{1,4}$/), { nil: '' }),
    )
    .map(
      ([sign, whole, fraction, exponent]) =>
        `${sign}${whole}${fraction === undefined ? '' : `.${fraction}`}${exponent}`,
    ),
)

/** A number as code gets it: exact, or as text. */
function asData(text: string): number | string {
  const value = Number(text)
  if (!Number.isFinite(value)) return text
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(value) ? text : value
}

it('gives a rollout the label, the group and the numbers of a row as they were written', async () => {
  const seen: unknown[] = []
  const { url } = await startPolicyEndpoint((response, _, { body }) =>
    sendJson(response, 200, tokenAnswer(body, { content: 'ab' })),
  )
  await using server = await startServer({
    run: { groupColumn: 'id' },
    workflow: workflowOf(async (ctx) => {
      seen.push([ctx.group?.id, ctx.prompt, ctx.metadata])
      await askPolicy(ctx)
    }),
    grader: graderOf((ctx) => {
      seen.push(ctx.label)
      ctx.setReward(1)
    }),
  })
  const send = async (row: string): Promise<void> => {
    const body = `{"base_url":${JSON.stringify(url)},"model":"m","max_seq_len":10.0,${row}}`
    const answer = await fetch(`${server.url}/run`, { method: 'POST', body })
    expect(await answer.json()).toMatchObject({ exit_status: 'completed' })
  }

  await fc.assert(
    fc.asyncProperty(written, fc.array(written), async (number, list) => {
      const column = fc.sample(fc.constantFrom('label', 'answer', 'ground_truth', 'result'), 1)[0]
      const nested = `{"answers":[${list.join(',')}]}`
      const prompt = `[{"role":"user","content":"q","n":${number}}]`
      await send(`"prompt":${prompt},"${column}":${number},"id":${number},"metadata":${nested}`)
      await send(`"system_prompt":${number},"question":"q","${column}":${nested},"id":"a"`)
      const prompted = [{ role: 'user', content: 'q', n: asData(number) }]
      const system = { role: 'system', content: number }
      expect(seen.splice(0)).toEqual([
        [number, prompted, { id: asData(number), answers: list.map(asData) }],
        number,
        ['a', [system, { role: 'user', content: 'q' }], { id: 'a' }],
        nested,
      ])
    }),
    { numRuns: runs(100) },
  )
})

it('gives a rollout of POST /rollout no number that lost digits', async () => {
  const seen: unknown[] = []
  await using server = await startServer({
    workflow: workflowOf(async (ctx) => {
      seen.push(ctx.metadata)
      await askPolicy(ctx)
    }),
  })
  const body = JSON.stringify(server.controller.rolloutBody({ metadata: { n: 'NUMBERS' } }))
  const numbers = '[9007199254740993,-9007199254740993,1e400,1.0,9007199254740991,1e21]'
  const answer = await fetch(`${server.url}/rollout`, {
    method: 'POST',
    body: body.replace('"NUMBERS"', numbers),
  })
  expect(answer.status).toBe(202)
  await server.controller.bodies()
  expect(seen).toEqual([
    { n: ['9007199254740993', '-9007199254740993', '1e400', 1, 9007199254740991, 1e21] },
  ])
})

it('asks the policy with numbers, also beyond 2^53, where a trainer set numbers', async () => {
  const { url, requests } = await startPolicyEndpoint((response, _, { body }) =>
    sendJson(response, 200, tokenAnswer(body, { content: 'ab' })),
  )
  await using server = await startServer({ run: true })
  const sampling = '{"seed":12345678901234567890,"stop":"12345678901234567890","temperature":1.0}'
  const body = `{"base_url":${JSON.stringify(url)},"model":"m","question":"q","sampling_params":${sampling}}`
  await (await fetch(`${server.url}/run`, { method: 'POST', body })).text()
  expect(requests[0]?.body).toMatchObject({
    seed: 12345678901234567000,
    stop: '12345678901234567890',
    temperature: 1,
  })
})
