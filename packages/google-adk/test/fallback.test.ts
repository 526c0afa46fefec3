import type { ServerResponse } from 'node:http'

import {
  type BaseLlm,
  BuiltInCodeExecutor,
  FunctionTool,
  Gemini,
  GOOGLE_SEARCH,
  InMemoryRunner,
  LlmAgent,
  LLMRegistry,
  setLogger,
  StreamingMode,
  URL_CONTEXT,
} from '@google/adk'
import { OsmosisLlm } from '@osmosis/google-adk'
import { startPolicyServer } from '@osmosis/testing'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'

import { HttpPeer, type PeerRequest, rolloutOn } from '../../../test/kit/index.ts'

// It writes each error to the console.
setLogger(null)
afterEach(() => vi.unstubAllEnvs())

/** Google's API: it calls the tool `add` once where it can, and then answers with JSON. */
class Google extends HttpPeer {
  readonly requests: object[] = []

  protected override receive({ path, body }: PeerRequest, response: ServerResponse): void {
    this.requests.push({ path, body })
    if (path.includes('/interactions')) {
      const id = `interaction-${this.requests.length}`
      const said = { type: 'model_output', content: [{ type: 'text', text: 'Interacted.' }] }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ id, status: 'completed', steps: [said] }))
      return
    }
    const answer = JSON.stringify(answerTo(JSON.stringify(body)))
    const streams = path.includes('alt=sse')
    response.setHeader('content-type', streams ? 'text/event-stream' : 'application/json')
    response.end(streams ? `data: ${answer}\n\n` : answer)
  }
}

function answerTo(body: string): object {
  const calls = body.includes('"name":"add"') && !body.includes('functionResponse')
  const part = calls
    ? { functionCall: { name: 'add', args: { a: 1, b: 2 } } }
    : { text: '{"sum":3}' }
  return { candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP' }] }
}

class LocalGemini extends Gemini {
  readonly #url: string

  constructor(url: string, settings: object = {}) {
    super({ model: 'gemini-2.5-flash', apiKey: 'key', ...settings })
    this.#url = url
  }

  override getHttpOptions(): ReturnType<Gemini['getHttpOptions']> {
    return { ...super.getHttpOptions(), baseUrl: this.#url }
  }
}

const add = new FunctionTool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})
const Sum = z.object({ sum: z.number() })

/** Asks an agent in one session. */
async function ask(
  agent: LlmAgent,
  { turns = ['go'], streamingMode = StreamingMode.NONE } = {},
): Promise<void> {
  const runner = new InMemoryRunner({ agent, appName: 'app' })
  const { id: sessionId } = await runner.sessionService.createSession({
    appName: 'app',
    userId: 'user',
  })
  for (const text of turns) {
    const newMessage = { role: 'user', parts: [{ text }] }
    const runConfig = { streamingMode }
    const events = runner.runAsync({ userId: 'user', sessionId, newMessage, runConfig })
    for await (const { errorMessage } of events) expect(errorMessage).toBeUndefined()
  }
}

/** Programs of users, each of a model. */
const programs: Readonly<Record<string, (model: BaseLlm) => Promise<unknown>>> = {
  'an agent with tools': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, instruction: 'Add.', tools: [add] })),
  'an agent with a stream': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, tools: [add] }), { streamingMode: StreamingMode.SSE }),
  'an agent with a memory': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, tools: [add] }), { turns: ['one', 'two'] }),
  'an agent with a schema for its output': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, outputSchema: Sum, outputKey: 'sum' })),
  'an agent with a schema for its output and tools': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, outputSchema: Sum, tools: [add] })),
  'an agent with a schema for its output and tools on Vertex': async (model) => {
    vi.stubEnv('GOOGLE_GENAI_USE_VERTEXAI', 'true')
    await ask(new LlmAgent({ name: 'agent', model, outputSchema: Sum, tools: [add] }))
  },
  'an agent with a search of Google': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, tools: [GOOGLE_SEARCH] })),
  'an agent that reads addresses': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, tools: [URL_CONTEXT] })),
  'an agent whose code Google executes': async (model) =>
    ask(new LlmAgent({ name: 'agent', model, codeExecutor: new BuiltInCodeExecutor() })),
  'an agent with another agent below': async (model) => {
    const subAgents = [new LlmAgent({ name: 'adder', model, description: 'Adds.', tools: [add] })]
    await ask(new LlmAgent({ name: 'agent', model, subAgents }))
  },
  'an agent whose callback chooses the model': async (model) => {
    const beforeModelCallback = ({ request }: { request: { model?: string } }): undefined => {
      request.model = 'gemini-2.5-pro'
    }
    await ask(new LlmAgent({ name: 'agent', model, beforeModelCallback }))
  },
}

/** The requests of a program with a model of its own, and with the same as a fallback. */
async function requestsOf(
  program: (model: BaseLlm) => Promise<unknown>,
  settings?: object,
): Promise<{ own: object[]; ours: object[] }> {
  await using server = await new Google().start()
  const own = new LocalGemini(server.url, settings)
  await program(own)
  vi.unstubAllEnvs()
  const sent = server.requests.splice(0)
  await program(new OsmosisLlm({ name: 'main', fallback: own }))
  return { own: sent, ours: server.requests }
}

describe('outside of rollouts, a model with a fallback sends the requests of the fallback alone:', () => {
  it.each(Object.entries(programs))('%s', async (_what, program) => {
    const { own, ours } = await requestsOf(program)
    expect(own).not.toEqual([])
    expect(ours).toEqual(own)
  })

  it('an agent whose interactions Google continues', async () => {
    const program = async (model: BaseLlm) =>
      ask(new LlmAgent({ name: 'agent', model }), { turns: ['one', 'two'] })
    const { own, ours } = await requestsOf(program, { useInteractionsApi: true })
    expect(ours).toEqual(own)
    expect(ours[1]).toMatchObject({ body: { previous_interaction_id: 'interaction-1' } })
  })
})

it('a function as fallback is called once, and not where rollouts run', async () => {
  await using server = await new Google().start()
  await using policy = await startPolicyServer(() => 'done')
  let made = 0
  const fallback = (): BaseLlm => {
    made += 1
    return new LocalGemini(server.url)
  }
  const agent = new LlmAgent({
    name: 'agent',
    model: new OsmosisLlm({ name: 'main', fallback }),
    tools: [add],
  })
  await rolloutOn(policy).run(async () => ask(agent))
  expect({ made, requests: policy.requests.length }).toEqual({ made: 0, requests: 1 })
  await ask(agent, { turns: ['one', 'two'] })
  expect(made).toBe(1)
  expect(policy.requests).toHaveLength(1)
})

it('a name as fallback is the model that the ADK knows by it, made once', async () => {
  await using server = await new Google().start()
  let made = 0
  class Registered extends LocalGemini {
    static override readonly supportedModels = ['local-.*']

    constructor({ model }: { model: string }) {
      super(server.url, { model })
      made += 1
    }
  }
  LLMRegistry.register(Registered)
  for (const fallback of ['local-gemini', () => 'local-gemini']) {
    made = 0
    const model = new OsmosisLlm({ name: 'main', fallback })
    await ask(new LlmAgent({ name: 'agent', model }), { turns: ['one', 'two'] })
    expect({ made, model: model.model }).toEqual({ made: 1, model: 'local-gemini' })
  }
})
