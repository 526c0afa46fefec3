import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { defineWorkflowConfig } from '@osmosis/core'
import { fault, type PolicyServer, type Reply, startPolicyServer } from '@osmosis/testing'
import { generateText, streamObject, streamText, ToolLoopAgent } from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { execute, rolloutOn, sampleOf, isNewestVersion } from '../../../test/kit/index.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { loops, tools } from './rollout.ts'

const agent = async (): Promise<string> => {
  const policyAgent = new OsmosisToolLoopAgent({ id: 'agent', model: rolloutModel(), tools })
  return (await policyAgent.generate({ prompt: 'go' })).text
}
const ways = {
  generateText: async (): Promise<string> => loops.generateText({}, 'go'),
  streamText: async (): Promise<string> => loops.streamText({}, 'go'),
  'ToolLoopAgent.generate': async (): Promise<string> =>
    (await new ToolLoopAgent({ model: rolloutModel('agent'), tools }).generate({ prompt: 'go' }))
      .text,
  'OsmosisToolLoopAgent.generate': agent,
  async 'OsmosisToolLoopAgent.stream'(): Promise<string> {
    const policyAgent = new OsmosisToolLoopAgent({ id: 'agent', model: rolloutModel(), tools })
    return (await policyAgent.stream({ prompt: 'go' })).text
  },
}

const half = 'an answer of which only half will ever arrive'
const opening = JSON.stringify({ choices: [{ index: 0, delta: { role: 'assistant' } }] })
const said = { message: expect.stringContaining('out of memory') }
const failures: [what: string, reply: Reply, requests: number, code: string, more?: object][] = [
  ['a 400', fault.status(400), 1, 'policy_http_error', { status: 400 }],
  ['a 401', fault.status(401), 1, 'policy_http_error', { status: 401 }],
  ['429s without end', fault.status(429), 3, 'policy_http_error', { status: 429 }],
  ['500s without end', fault.status(500), 3, 'policy_http_error', { status: 500 }],
  ['a socket that closes', fault.on('x', { cutBeforeHeaders: true }), 3, 'policy_unreachable'],
  [
    'an accepted request whose answer never begins',
    fault.on(half, { delayFirstByteMs: 50, cutAfterBytes: 0 }),
    3,
    'policy_stream_error',
  ],
  ['half an answer', fault.on(half, { cutAfterBytes: 700 }), 1, 'policy_stream_error'],
  [
    'an answer without an end',
    fault.on(half, { omit: ['finish', 'done'] }),
    1,
    'policy_stream_error',
  ],
  [
    'an error event',
    fault.on(half, { errorEvent: 'out of memory' }),
    1,
    'policy_stream_error',
    said,
  ],
  [
    'an error object',
    fault.on(half, { errorData: 'out of memory' }),
    1,
    'policy_stream_error',
    said,
  ],
  [
    'an error object behind the first chunk',
    fault.raw(`data: ${opening}\n\ndata: {"error":{"message":"out of memory"}}\n\n`),
    1,
    'policy_stream_error',
    said,
  ],
  [
    'an error object instead of an answer',
    fault.raw('data: {"error":{"message":"out of memory"}}\n\n'),
    1,
    'policy_stream_error',
    said,
  ],
]

/** A closed socket is a failure at once, not a policy that may be back. */
const workflowConfig = defineWorkflowConfig({ name: 'failures', policyLimits: { awaySeconds: 0 } })

describe.each(Object.entries(ways))('%s', (_way, run) => {
  test.concurrent.each(failures)(
    'asks no more than the rollout does and throws its error after %s',
    async (_what, reply, requests, code, more) => {
      await using server = await startPolicyServer(() => reply)
      const { workflow } = await execute(server, run, { workflowConfig })
      expect(workflow.failure).toMatchObject({
        category: 'http_error',
        cause: { name: 'OsmosisError', code, ...more },
      })
      expect(server.requests).toHaveLength(requests)
    },
  )
})

test.runIf(isNewestVersion())('streamRetries do not sample the policy a second time', async () => {
  await using server = await startPolicyServer(() => fault.on(half, { cutAfterBytes: 700 }))
  const { workflow } = await execute(server, async () => {
    const options = { model: rolloutModel(), prompt: 'go', streamRetries: 2 }
    return streamText(options).text
  })
  expect(workflow.failure?.category).toBe('http_error')
  expect(server.requests).toHaveLength(1)
})

test.each<[string, object]>([
  ['content that is not text', { choices: [{ index: 0, delta: { content: 5 } }] }],
  ['usage with a text as a count', { choices: [], usage: { prompt_tokens: 'many' } }],
])('%s fails the rollout as http_error', async (_what, unreadable) => {
  const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  const events = [unreadable, last].map((event) => `data: ${JSON.stringify(event)}\n\n`)
  for (const run of [ways.generateText, ways.streamText]) {
    await using server = await startPolicyServer([fault.raw(`${events.join('')}data: [DONE]\n\n`)])
    const { workflow } = await execute(server, run)
    expect(workflow.failure).toMatchObject({
      category: 'http_error',
      cause: { code: 'policy_stream_error' },
    })
    expect(server.requests).toHaveLength(1)
  }
})

test('a provider of the SDK asks no more than the policy client through its fetch for an answer that never begins', async () => {
  const cut = fault.on(half, { delayFirstByteMs: 50, cutAfterBytes: 0 })
  await using server = await startPolicyServer(() => cut)
  const rollout = rolloutOn(server)
  const { baseUrl: baseURL, fetch } = rollout.policy('main')
  const model = createOpenAICompatible({ name: 'own', baseURL, fetch })('any')
  await expect(generateText({ model, prompt: 'go' })).rejects.toMatchObject({
    cause: { code: 'policy_stream_error' },
  })
  await streamText({ model, prompt: 'go', onError: () => {} }).consumeStream()
  expect(server.requests).toHaveLength(6)
})

describe('a stream that broke off fails the rollout', () => {
  const broken = fault.on(half, { cutAfterBytes: 700 })
  const call = { model: rolloutModel('main'), prompt: 'go' }

  test.each<[string, (server: PolicyServer) => Promise<unknown>]>([
    [
      'when no one read it',
      async (server) => {
        streamText(call)
        await server.waitForRequest(0)
      },
    ],
    [
      'when its reader left before',
      async () => {
        for await (const text of streamText(call).textStream) if (text !== '') break
      },
    ],
    ['when consumeStream swallowed the error', async () => streamText(call).consumeStream()],
    [
      'when a handler took the error',
      async () => {
        const result = streamText({ ...call, onError: () => {} })
        await result.text.then(undefined, () => {})
      },
    ],
    [
      'when it was that of an object',
      async () => {
        const schema = z.object({ a: z.string() })
        const { partialObjectStream, object } = streamObject({ ...call, schema, onError: () => {} })
        object.catch(() => {})
        const reader = partialObjectStream.getReader()
        await reader.read().catch(() => {})
      },
    ],
  ])('%s', async (_how, run) => {
    await using server = await startPolicyServer([broken])
    const { workflow } = await execute(server, async () => run(server))
    expect(workflow).toMatchObject({
      status: 'failure',
      failure: { category: 'http_error', cause: { code: 'policy_stream_error' } },
    })
    expect(server.requests).toHaveLength(1)
  })

  test('also when it was refused before it began', async () => {
    await using server = await startPolicyServer([fault.status(400)])
    const { workflow } = await execute(server, async () => streamText(call).consumeStream())
    expect(workflow.failure).toMatchObject({ category: 'http_error', cause: { status: 400 } })
  })

  test('but not when the workflow repeated the call successfully', async () => {
    await using server = await startPolicyServer([broken, 'done'])
    const { workflow } = await execute(server, async () => {
      await streamText(call).text.then(undefined, () => {})
      await streamText(call).text
    })
    expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
  })

  test('and a later answer to an earlier call does not change that', async () => {
    await using server = await startPolicyServer([fault.on('one', { delayMs: 300 }), broken])
    const { workflow } = await execute(server, async () => {
      const first = streamText(call)
      await server.waitForRequest(0)
      const second = streamText(call)
      await second.consumeStream()
      await first.text
    })
    expect(workflow.failure?.category).toBe('http_error')
  })

  test('and so does an error of generateText that the workflow caught', async () => {
    await using server = await startPolicyServer([fault.status(400)])
    const { workflow } = await execute(server, async () =>
      generateText(call).then(undefined, () => {}),
    )
    expect(workflow.failure).toMatchObject({ category: 'http_error', cause: { status: 400 } })
  })
})

describe('an abort', () => {
  const call = { model: rolloutModel('main'), prompt: 'go' }

  test('before the first call sends no request', async () => {
    await using server = await startPolicyServer([])
    const { workflow } = await execute(server, async () => {
      const aborted = { ...call, abortSignal: AbortSignal.abort() }
      await expect(generateText(aborted)).rejects.toThrow(/abort/i)
      await streamText(aborted).consumeStream()
    })
    expect(workflow.failure).toBeNull()
    expect(server.requests).toHaveLength(0)
  })

  test('by a timeout of the SDK is an abort as well', async () => {
    await using server = await startPolicyServer(() => fault.hang('headers'))
    await rolloutOn(server).run(async () => {
      await expect(generateText({ ...call, timeout: 500 })).rejects.toThrow(/timeout/i)
    })
    // A very slow machine may send no request before the deadline.
    expect(server.requests.length).toBeLessThanOrEqual(1)
    for (const { closed } of server.requests) expect(await closed).toBe(true)
  })
})

describe('a workflow that does not wait for its stream', () => {
  const call = { model: rolloutModel('main'), prompt: 'go' }

  test('is not done before the answer is', async () => {
    await using server = await startPolicyServer([fault.on('6', { delayMs: 100 })])
    const { workflow, grading } = await execute(
      server,
      async () => {
        streamText(call)
        await server.waitForRequest(0)
      },
      { label: '6', grader: MultiplyGrader },
    )
    expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
    expect(grading?.samples.get('main')?.reward).toBe(1)
  })

  test('sends no request after its end', async () => {
    await using server = await startPolicyServer([])
    const late: PromiseLike<string>[] = []
    const { workflow } = await execute(server, async () => void late.push(streamText(call).text))
    expect(workflow.warnings).toEqual([expect.stringContaining('await its run')])
    await expect(late[0]).rejects.toMatchObject({ code: 'rollout_ended' })
    expect(server.requests).toHaveLength(0)
  })
})

test('a policy that ignores toolChoice is recorded, and ends the run where the SDK minds', async () => {
  await using server = await startPolicyServer(['no tool for you'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const call = {
      model: rolloutModel('main'),
      prompt: 'go',
      tools,
      toolChoice: 'required',
    } as const
    await generateText(call).then(undefined, () => {})
  })
  expect(server.requests).toHaveLength(1)
  expect((await sampleOf(rollout, 'main')).trajectoryMessages?.at(-1)?.content).toBe(
    'no tool for you',
  )
})

test('an answer remains in the conversation when repeating its request fails', async () => {
  await using server = await startPolicyServer(['one', fault.status(400)])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const call = { model: rolloutModel('main'), prompt: 'go' }
    await generateText(call)
    await generateText(call).then(undefined, () => {})
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.trajectoryMessages?.at(-1)).toEqual({ role: 'assistant', content: 'one' })
  expect(sample.messages.at(-1)).toMatchObject({ role: 'assistant', content: [{ text: 'one' }] })
})

test('a model answers again when its process had no free file descriptor at the first call', async () => {
  const file = path.join(import.meta.dirname, 'call-without-files.ts')
  const limited = ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, file]
  const { stdout } = await promisify(execFile)('sh', limited)
  expect(stdout.split('\n')).toEqual([expect.stringContaining('too many open files'), 'yes', ''])
})
