import { readFileSync } from 'node:fs'

import { StructuredOutputParser } from '@langchain/core/output_parsers'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { OsmosisChatModel } from '@osmosis/langchain'
import {
  createAgent,
  createMiddleware,
  modelCallLimitMiddleware,
  piiMiddleware,
  providerStrategy,
  toolCallLimitMiddleware,
  toolStrategy,
} from 'langchain'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { blame, callAdd } from '../../../test/kit/index.ts'
import { add, go } from './rollout.ts'

const Sum = z.object({ sum: z.number() })
const parser = StructuredOutputParser.fromZodSchema(Sum)
const model = () => new OsmosisChatModel('main')
const ask = async () => model().invoke('go')

/** A graph whose only node runs again and again. */
function endless(step: () => Promise<unknown>) {
  return new StateGraph(MessagesAnnotation)
    .addNode('step', async () => {
      await step()
      return { messages: [] }
    })
    .addEdge(START, 'step')
    .addConditionalEdges('step', () => 'step', ['step', END])
    .compile()
}

/** Their types depend on one another, which is of no interest here. */
async function agentWith(middleware: unknown, messages: object): Promise<unknown> {
  const agent = createAgent({
    model: model(),
    tools: [add],
    middleware: [middleware],
  } as never) as unknown as { invoke(input: object): Promise<unknown> }
  return agent.invoke({ messages })
}

const wraps = createMiddleware({
  name: 'Wraps',
  wrapModelCall: async (request, handler) => handler(request),
})

const judge = new FakeListChatModel({ responses: ['no JSON'] })

describe('the policy is blamed for', () => {
  it('a graph that it keeps going', async () => {
    const run = async () =>
      endless(ask).invoke({ messages: go }, { recursionLimit: 3, callbacks: [{}] })
    expect(await blame(() => 'on', run)).toBe('limit_reached: recursion_limit')
  })

  it('a graph around the graph that it answers in', async () => {
    const inner = createAgent({ model: model(), tools: [] })
    const run = async () =>
      endless(async () => inner.invoke({ messages: go })).invoke(
        { messages: go },
        { recursionLimit: 3 },
      )
    expect(await blame(() => 'on', run)).toBe('limit_reached: recursion_limit')
  })

  it('a graph that catches what its inner graph threw, and throws it again', async () => {
    const run = async () => {
      try {
        await endless(ask).invoke({ messages: go }, { recursionLimit: 2 })
      } catch (cause) {
        throw new Error('The agent gave up.', { cause })
      }
    }
    expect(await blame(() => 'on', run)).toBe('limit_reached: recursion_limit')
  })

  it('too many model calls and tool calls of an agent', async () => {
    const limit = { runLimit: 1, exitBehavior: 'error' }
    const middlewares: Readonly<Record<string, unknown>> = {
      'limit_reached: model_calls': modelCallLimitMiddleware(limit as never),
      'limit_reached: tool_calls': toolCallLimitMiddleware(limit as never),
    }
    for (const [expected, middleware] of Object.entries(middlewares)) {
      const run = async () => agentWith(middleware, go)
      expect(await blame(() => callAdd, run)).toBe(expected)
    }
  })

  it('a text that a parser of its answer refuses', async () => {
    const run = async () => model().pipe(parser).invoke('go')
    expect(await blame(['no JSON'], run)).toBe('model_error: output')
    const apart = async () => parser.parse((await ask()).text)
    expect(await blame(['{"sum":"three"}'], apart)).toBe('model_error: output')
  })

  it('a tool for the output that it calls with wrong arguments', async () => {
    const strategy = toolStrategy(Sum, { handleError: false })
    const run = async () =>
      createAgent({ model: model(), tools: [], responseFormat: strategy }).invoke({ messages: go })
    const reply = (name: string) => ({
      toolCalls: [{ id: 'c', name, arguments: '{"sum":"three"}' }],
    })
    const named = ({ body }: { body: Record<string, unknown> }) => {
      const [tool] = body['tools'] as [{ function: { name: string } }]
      return reply(tool.function.name)
    }
    expect(await blame(named, run)).toBe('model_error: output')
  })

  it('a text without the JSON that a provider strategy asks for', async () => {
    const middleware = [[], [wraps]]
    for (const wrapped of middleware) {
      const run = async () =>
        createAgent({
          model: new OsmosisChatModel({ name: 'main', profile: { structuredOutput: true } }),
          tools: [],
          responseFormat: Sum,
          middleware: wrapped,
        }).invoke({ messages: go })
      expect(await blame(['no JSON'], run)).toBe('model_error: output')
    }
  })

  it('what a middleware blocks in its answer', async () => {
    const pii = piiMiddleware('email', {
      strategy: 'block',
      applyToInput: false,
      applyToOutput: true,
    })
    const run = async () => agentWith(pii, go)
    expect(await blame(['Write to a.b@example.org.'], run)).toBe('model_error: output')
  })
})

describe('the policy is not blamed for', () => {
  it('a graph without a model', async () => {
    const run = async () => {
      await ask()
      await endless(async () => {}).invoke({ messages: go }, { recursionLimit: 3 })
    }
    expect(await blame(['good'], run)).toBe('failure')
  })

  it('a graph of another model, also beside a graph of its own', async () => {
    const run = async () => {
      await createAgent({ model: model(), tools: [] }).invoke({ messages: go })
      await endless(async () => judge.invoke('judge')).invoke(
        { messages: go },
        { recursionLimit: 3 },
      )
    }
    expect(await blame(['good'], run)).toBe('failure')
  })

  it('a graph of another model in a node of its own graph', async () => {
    const run = async () =>
      new StateGraph(MessagesAnnotation)
        .addNode('answer', async () => ({ messages: [await ask()] }))
        .addNode('judge', async () => {
          await endless(async () => judge.invoke('judge')).invoke(
            { messages: go },
            { recursionLimit: 3 },
          )
          return { messages: [] }
        })
        .addEdge(START, 'answer')
        .addEdge('answer', 'judge')
        .addEdge('judge', END)
        .compile()
        .invoke({ messages: go })
    expect(await blame(['good'], run)).toBe('failure')
  })

  it('the text of another model without the JSON that a provider strategy asks for', async () => {
    const run = async () => {
      await ask()
      await createAgent({
        model: new FakeListChatModel({ responses: ['no JSON'] }),
        tools: [],
        responseFormat: providerStrategy(Sum),
      }).invoke({ messages: go })
    }
    expect(await blame(['on'], run)).toBe('failure')
  })

  it('a parser over a file, or over what another model said', async () => {
    const file = async () => {
      await ask()
      await parser.parse(readFileSync(new URL(import.meta.url), 'utf8'))
    }
    expect(await blame(['good'], file)).toBe('failure')
    const other = async () => {
      await ask()
      await judge.pipe(parser).invoke('judge')
    }
    expect(await blame(['good'], other)).toBe('failure')
  })

  it('what a middleware blocks in the row', async () => {
    const pii = piiMiddleware('email', { strategy: 'block' })
    const messages = [{ role: 'user', content: 'I am a.b@example.org.' }]
    const run = async () => agentWith(pii, messages)
    expect(await blame(['good'], run)).toBe('failure')
  })

  it('a class of the program with a known name', async () => {
    class GraphRecursionError extends Error {
      override name = 'GraphRecursionError'
    }
    class OutputParserException extends Error {
      override name = 'OutputParserException'
    }
    for (const thrown of [new GraphRecursionError('x'), new OutputParserException('x')]) {
      const run = async () => {
        await ask()
        throw new Error('wrapped', { cause: thrown })
      }
      expect(await blame(['good'], run)).toBe('failure')
    }
  })
})
