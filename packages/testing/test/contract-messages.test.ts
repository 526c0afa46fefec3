import {
  definePolicyFaults,
  getRolloutContext,
  type PolicyFault,
  requireRolloutContext,
  type RolloutContext,
} from '@osmosis/core'
import type { ChatCompletion, ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import { wrongRollout } from '@osmosis/core/workflow'
import {
  type AdapterUnderTest,
  contractRules,
  type ContractRun,
  runAdapterContract,
} from '@osmosis/testing'
import { describe, expect, it } from 'vitest'

// A small adapter is broken in one way at a time; the rule that notices says what is wrong.

class GaveUp extends Error {
  readonly fault: PolicyFault
  /** Whether the policy gave the last answer. */
  readonly isOfPolicy: boolean

  constructor(fault: PolicyFault, isOfPolicy: boolean) {
    super(JSON.stringify(fault))
    this.fault = fault
    this.isOfPolicy = isOfPolicy
  }
}

definePolicyFaults((error) =>
  error instanceof GaveUp && error.isOfPolicy ? error.fault : undefined,
)

class Agent {
  readonly #name: string
  readonly #rollout: RolloutContext
  readonly #messages: ChatMessage[] = []

  constructor(name: string) {
    this.#name = name
    this.#rollout = requireRolloutContext('Agent')
    this.#rollout.registerSampleSource(name, {
      getSample: async (id) => ({ id, messages: this.#messages }) as never,
      requiresModelCall: true,
    })
  }

  async run({ prompt, tools = [], signal }: ContractRun, maxTurns = Infinity): Promise<string> {
    this.#messages.push({ role: 'user', content: prompt })
    for (let turn = 0; ; turn += 1) {
      if (turn === maxTurns) throw new GaveUp({ limit: 'max_turns' }, true)
      const message = await this.#call(signal)
      this.#messages.push(message)
      const calls = message.tool_calls ?? []
      if (calls.length === 0) return typeof message.content === 'string' ? message.content : ''
      for (const call of calls) this.#messages.push(await resultOf(call, tools))
    }
  }

  async #call(signal: AbortSignal | undefined): Promise<ChatMessage> {
    const policy = this.#rollout.policy(this.#name)
    const { choices } = await policy.complete({ messages: this.#messages }, { signal })
    const [choice] = choices
    if (choice === undefined) throw new Error('The policy returned no choice.')
    return choice.message
  }
}

async function resultOf(
  { id, function: called }: ChatToolCall,
  tools: ContractRun['tools'],
): Promise<ChatMessage> {
  return { role: 'tool', tool_call_id: id, content: await runTool(called, tools) }
}

async function runTool(
  called: ChatToolCall['function'],
  tools: ContractRun['tools'] = [],
): Promise<string> {
  const tool = tools.find(({ name }) => name === called.name)
  try {
    return (await tool?.execute(JSON.parse(called.arguments))) ?? 'unknown tool'
  } catch (error) {
    getRolloutContext()?.logToolError(called.name, error)
    return String(error)
  }
}

async function askOther({ prompt, tools }: ContractRun, url: string): Promise<string> {
  const messages: ChatMessage[] = [{ role: 'user', content: prompt }]
  for (;;) {
    const body = JSON.stringify({ messages, tools })
    const response = await fetch(`${url}/chat/completions`, { method: 'POST', body })
    const [choice] = ((await response.json()) as ChatCompletion).choices
    const { content, tool_calls: calls = [] } = choice?.message ?? {}
    // What it does with more calls is of no interest.
    if (calls.length === 0 || messages.length > 1) return content as string
    for (const call of calls) messages.push(await resultOf(call, tools))
  }
}

const working: AdapterUnderTest = {
  run: async (run) => new Agent(run.name).run(run),
  async runTwoTurns(run, url) {
    if (url === undefined) return new Agent(run.name).run(run, 2)
    await askOther(run, url)
    throw new GaveUp({ limit: 'max_turns' }, false)
  },
  async runStructured(run, url) {
    const said = await (url === undefined ? new Agent(run.name).run(run) : askOther(run, url))
    if (!said.startsWith('{')) throw new GaveUp({ error: 'output' }, url === undefined)
    return JSON.parse(said) as unknown
  },
  runWithFallback: async (run, url) =>
    getRolloutContext() === undefined ? askOther(run, url) : working.run(run),
  runOwnModel: askOther,
  prepare(name) {
    const made = requireRolloutContext('Agent')
    const agent = new Agent(name)
    return async () => {
      const current = requireRolloutContext('Agent')
      if (current !== made) throw wrongRollout('An agent', made, current)
      return agent.run({ name, prompt: 'go' })
    }
  },
  construct: (name) => new Agent(name),
  callPlaceholder: () => new Agent('outside'),
  concurrentRollouts: 2,
}

/** Runs one rule of the contract and resolves with the message of its failure. */
async function adapterFailure(
  rule: keyof typeof contractRules,
  broken: Partial<AdapterUnderTest> = {},
): Promise<string> {
  let failure = Promise.resolve('')
  const declare = (title: string, body: () => Promise<void>): void => {
    if (title === contractRules[rule]) failure = failureOf(body)
  }
  const runner = {
    describe: (_: string, body: () => void) => body(),
    it: Object.assign(declare, { skip: () => {} }),
  }
  runAdapterContract(runner, 'broken', { ...working, ...broken })
  return failure
}

async function failureOf(body: () => Promise<void>): Promise<string> {
  return body().then(
    () => 'no failure',
    (error: Error) => error.message,
  )
}

const rules = Object.keys(contractRules) as (keyof typeof contractRules)[]

it.each(rules)('a correct adapter passes %s', async (rule) => {
  expect(await adapterFailure(rule)).toBe('no failure')
})

describe('the failure of an adapter names the rule, what was expected and what was received', () => {
  it('when it calls the policy too often', async () => {
    const run = async (given: ContractRun): Promise<string> => {
      await working.run({ ...given, name: `${given.name}-again` })
      return working.run(given)
    }
    expect(await adapterFailure('gives-sample', { run })).toMatchInlineSnapshot(
      `"rule "an agent that called the policy is a sample under its name" (gives-sample): expected 1 request to the policy, received 4 (x-sample-id "solver-again", "solver", "solver", "solver")"`,
    )
  })

  it('when it turns an error into an answer', async () => {
    const run = async (given: ContractRun): Promise<string> =>
      working.run(given).catch(() => 'sorry')
    expect(await adapterFailure('refused-once', { run })).toMatchInlineSnapshot(
      `"rule "a 401 is not retried and fails the run as http_error" (refused-once): expected the run to reject, received the result "sorry""`,
    )
  })

  it('when it accepts what it must refuse', async () => {
    const broken = { construct: () => {}, callPlaceholder: () => 'an agent' }
    expect(await adapterFailure('refuses-duplicates', broken)).toMatchInlineSnapshot(
      `"rule "the same name twice in a rollout is an error that names it" (refuses-duplicates): expected the second agent of this name to reject, received the result nothing"`,
    )
    expect(await adapterFailure('refuses-outside', broken)).toMatchInlineSnapshot(
      `"rule "outside a rollout the placeholder throws and says what to do" (refuses-outside): expected the placeholder to reject, received the result "an agent""`,
    )
  })

  it('when it ends before the request that the rule waits for', async () => {
    const run = async (): Promise<string> => 'done'
    expect(await adapterFailure('aborts-for-real', { run })).toMatchInlineSnapshot(
      `"rule "an aborted run closes the socket and yields the conversation so far" (aborts-for-real): expected a second request, received the end of the run with "done""`,
    )
  })

  it('when it blames the policy for another model', async () => {
    const runStructured = async (run: ContractRun, url?: string): Promise<void> => {
      if (url !== undefined) await askOther(run, url)
      throw new GaveUp({ error: 'output' }, true)
    }
    expect(await adapterFailure('blames-nobody-for-others', { runStructured })).toBe(
      'rule "what another model does wrong is never graded as a fault of the policy" (blames-nobody-for-others): expected the fields that blame the policy to be [], received [ \'model_error\' ]',
    )
  })

  it('when it changes what users send', async () => {
    const runWithFallback = async (run: ContractRun, url: string): Promise<string> =>
      askOther({ ...run, tools: [] }, url)
    expect(await adapterFailure('sends-equal-requests', { runWithFallback })).toMatch(
      /\(sends-equal-requests\): expected the requests with the model as a fallback at \[0\]\.body\.tools/,
    )
  })

  it('when an agent of another rollout calls the policy', async () => {
    const prepare = (name: string): (() => Promise<string>) => {
      const agent = new Agent(name)
      return async () => agent.run({ name, prompt: 'go' })
    }
    expect(await adapterFailure('stays-in-its-rollout', { prepare })).toContain(
      'expected 0 requests to the policy, received 1',
    )
  })

  it('when it throws an error of its own', async () => {
    const run = async (): Promise<string> => {
      throw new TypeError('no such model')
    }
    expect(await adapterFailure('echoes-arguments', { run })).toMatchInlineSnapshot(
      `"rule "tool arguments return to the policy byte for byte" (echoes-arguments): expected no error, received TypeError: no such model"`,
    )
  })
})
