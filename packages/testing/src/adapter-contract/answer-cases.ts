import { lastAssistantObject } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import { expectEqual, expectMatch, expectThat } from '../contract-expectations.ts'
import { fault, type Reply } from '../policy-reply.ts'
import { type PolicyScript, startPolicyServer } from '../policy-server.ts'
import type { ReceivedRequest } from '../received-request.ts'
import type {
  AdapterUnderTest,
  ContractCase,
  ContractRule,
  ContractRun,
  ContractTool,
} from './adapter-rules.ts'
import { type ContractOutcome, executeRollout, messagesOf } from './contract-rollout.ts'

/** Whatever a server makes of an answer, the agent does what the policy said, and nothing else. */
export const answerCases = {
  'separates-repeated-ids': async (adapter) => {
    const { ran, messages } = await converse(adapter, [
      stream([call('call_0', 'add', '{"a":1}')]),
      stream([call('call_0', 'add', '{"a":2}'), call('call_0', 'sub', '{"a":3}', 1)]),
      'done',
    ])
    expectEqual('the tools that ran', ran.toSorted(), ['add {"a":1}', 'add {"a":2}', 'sub {"a":3}'])
    const turns = messages.filter(({ role }) => role === 'assistant' || role === 'tool')
    expectEqual(
      'the tool calls and results in the last request',
      turns.flatMap(({ tool_calls = [], tool_call_id }) =>
        tool_call_id === undefined
          ? tool_calls.map(({ id, function: called }) => `${id} ${called.name}`)
          : [`result of ${tool_call_id}`],
      ),
      [
        'call_0 add',
        'result of call_0',
        'call_0 add',
        'call_0 sub',
        'result of call_0',
        'result of call_0',
      ],
    )
    const results = turns.flatMap(({ role, content }) =>
      role === 'tool' ? [JSON.stringify(content)] : [],
    )
    const expected = [/add 1/, /add 2/, /sub 3/]
    for (const [at, pattern] of expected.entries()) {
      expectMatch(`result ${at + 1} in the last request`, results[at], pattern)
    }
  },

  'sees-recorded-calls': async (adapter) => {
    const asObject = { a: 1 } as unknown as string
    const { ran, messages } = await converse(adapter, [
      // All calls have index 0, one has arguments as an object, and one has its name in two pieces.
      stream([call('c1', 'add', asObject)], [call('c2', 'add', '{"a"'), piece(':2}')]),
      stream(
        [call('c3', 's', '')],
        [{ index: 0, function: { name: 'ub', arguments: '' } }],
        [piece('{"a":3}')],
      ),
      'done',
    ])
    expectEqual('the tools that ran', ran.toSorted(), ['add {"a":1}', 'add {"a":2}', 'sub {"a":3}'])
    const calls = messages.flatMap(({ tool_calls = [] }) => tool_calls)
    expectEqual(
      'the tool calls in the last request',
      calls.map(({ id, function: { name, arguments: written } }) => `${id} ${name} ${written}`),
      ['c1 add {"a":1}', 'c2 add {"a":2}', 'c3 sub {"a":3}'],
    )
  },

  'never-runs-cut-calls': async (adapter) => {
    for (const written of ['', '{"a":1', '{"path":"/data']) {
      const { ran, outcome } = await converse(adapter, [
        stream([call('c1', 'add', written)], { reason: 'length' }),
        'done',
      ])
      expectEqual('the tools that ran', ran, [])
      const [first] = callsIn(outcome)
      expectEqual('the recorded arguments', first?.function.arguments, written)
    }
  },

  'runs-whole-calls': async (adapter) => {
    const { ran, outcome, messages } = await converse(adapter, [
      stream([call('c1', 'now', ''), call('c2', 'add', '{"a":1}', 1)], { reason: 'length' }),
      'done',
    ])
    expectGraded(outcome)
    expectEqual('the tools that ran', ran.toSorted(), ['add {"a":1}', 'now {}'])
    const answered = messages.flatMap(({ role, tool_call_id: id }) => (role === 'tool' ? [id] : []))
    expectEqual('the results in the last request', answered, ['c1', 'c2'])
    const { calls = [], extraFields = {} } = outcome.grading.samples.get('solver') ?? {}
    expectEqual('how the first answer ended', calls[0]?.finishReason, 'length')
    expectEqual('the limit that was reached', extraFields['limit_reached'], undefined)
  },

  'returns-names': async (adapter) => {
    for (const name of [
      'nope',
      'add<|channel|>analysis',
      'functions.add',
      '加 add',
      '__proto__',
      'constructor',
      '',
    ]) {
      const { ran, messages } = await converse(adapter, [
        stream([call('c1', name, '{"a":1}'), call('c2', 'add', '{"a":2}', 1)]),
        'done',
      ])
      expectEqual('the tools that ran', ran, ['add {"a":2}'])
      const names = messages.flatMap(({ tool_calls = [] }) =>
        tool_calls.map((made) => made.function.name),
      )
      expectEqual('the names in the last request', names, [name, 'add'])
      const answered = messages.flatMap(({ role, tool_call_id = '' }) =>
        role === 'tool' ? [tool_call_id] : [],
      )
      expectEqual('the tool calls that have a result', answered.toSorted(), ['c1', 'c2'])
      expectEqual('the keys that every object got', Object.keys(Object.prototype), [])
    }
  },

  'orders-results': async (adapter) => {
    const calls = ['nope', 'add', 'nope', 'sub'].map((name, at) =>
      call(`c${at}`, name, `{"a":${at}}`, at),
    )
    const { ran, messages } = await converse(adapter, [stream(calls), 'done'])
    expectEqual('the tools that ran', ran.toSorted(), ['add {"a":1}', 'sub {"a":3}'])
    const answered = messages.flatMap(({ role, tool_call_id: id }) => (role === 'tool' ? [id] : []))
    expectEqual('the results in the last request', answered, ['c0', 'c1', 'c2', 'c3'])
  },

  'runs-without-arguments': async (adapter) => {
    const { ran, outcome } = await converse(adapter, [stream([call('c1', 'now', '')]), 'done'])
    expectEqual('the tools that ran', ran, ['now {}'])
    expectEqual('the recorded arguments', callsIn(outcome)[0]?.function.arguments, '')
  },

  'grades-refusals': async (adapter) => {
    const { outcome } = await converse(adapter, [
      fault.raw(
        events({ delta: { refusal: 'I will not.' } }, { delta: {}, finish_reason: 'stop' }),
      ),
      // Some frameworks ask again.
      'done',
    ])
    expectGraded(outcome)
  },

  'grades-turn-limits': async (adapter) => {
    const { outcome, requests } = await converse(
      { ...adapter, run: async (run) => adapter.runTwoTurns?.(run) },
      callsAgain(),
    )
    expectGraded(outcome)
    expectThat(
      requests <= 3,
      'the framework to end the run after two turns',
      `${requests} model calls`,
    )
  },

  'grades-wrong-output': async (adapter) => {
    const { outcome } = await converse(
      { ...adapter, run: async (run) => adapter.runStructured?.(run) },
      notJson,
    )
    expectGraded(outcome)
  },

  'reads-objects': async (adapter) => {
    const given = Promise.withResolvers<unknown>()
    const run = async (of: ContractRun): Promise<void> =>
      given.resolve(await adapter.runStructured?.(of))
    const { outcome } = await converse({ ...adapter, run }, givesObject)
    expectGraded(outcome)
    expectEqual('the object of the framework', await given.promise, { sum: 5 })
    const sample = outcome.grading.samples.get('solver')
    expectEqual('the object of the sample', sample && lastAssistantObject(sample), { sum: 5 })
  },

  'blames-nobody-for-others': async (adapter) => {
    await expectUnblamed(adapter, 'runTwoTurns', callsAgain())
    await expectUnblamed(adapter, 'runStructured', notJson)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

interface SentTool {
  readonly function: {
    readonly name: string
    readonly parameters?: { readonly properties?: object }
  }
}

/** Calls the tool with which a framework asks for an object; without one its answer is the object. */
function givesObject({ body }: ReceivedRequest): Reply {
  const { messages, tools } = body as { messages: ChatMessage[]; tools?: SentTool[] }
  const tool = tools?.find(
    ({ function: { parameters } }) => 'sum' in (parameters?.properties ?? {}),
  )
  if (tool === undefined) return '{"sum": 5}'
  // Some frameworks ask again when the object is complete.
  if (messages.at(-1)?.role === 'tool') return 'done'
  return stream([call('c1', tool.function.name, '{"sum": 5}')])
}

const notJson: readonly Reply[] = Array.from({ length: 10 }, () => 'This is not JSON.')

function callsAgain(): Reply[] {
  return Array.from({ length: 30 }, (_, at) => stream([call(`c${at}`, 'add', '{"a":1}')]))
}

/** The policy answers well, then a run of another model goes wrong. */
async function expectUnblamed(
  adapter: AdapterUnderTest,
  method: 'runTwoTurns' | 'runStructured',
  replies: readonly Reply[],
): Promise<void> {
  if (adapter[method] === undefined) return
  await using other = await startPolicyServer(replies)
  const { outcome } = await converse(
    {
      ...adapter,
      async run(of) {
        await adapter.run({ name: of.name, prompt: of.prompt })
        await adapter[method]?.({ ...of, name: 'judge' }, other.url)
      },
    },
    ['The policy says this.'],
  )
  expectThat(other.requests.length > 0, 'a call of the other model', 'none')
  for (const { extraFields } of outcome.grading.samples.values()) {
    const blamed = ['limit_reached', 'model_error'].filter((field) => field in extraFields)
    expectEqual('the fields that blame the policy', blamed, [])
  }
}

interface Conversation {
  readonly outcome: ContractOutcome
  /** Names and inputs of the tools that ran. */
  readonly ran: readonly string[]
  /** The messages of the last request. */
  readonly messages: readonly ChatMessage[]
  readonly requests: number
}

type Runner = Pick<AdapterUnderTest, 'streams'> & { run(run: ContractRun): Promise<unknown> }

async function converse(adapter: Runner, replies: PolicyScript): Promise<Conversation> {
  await using server = await startPolicyServer(replies, adapter)
  const ran: string[] = []
  const tools = ['add', 'sub', 'now'].map((name): ContractTool => ({
    name,
    description: name,
    parameters: { type: 'object', properties: {}, additionalProperties: true },
    execute(input) {
      ran.push(`${name} ${JSON.stringify(input)}`)
      return `${name} ${String((input as { a?: unknown } | null)?.a)}`
    },
  }))
  const outcome = await executeRollout(server, async () =>
    adapter.run({ name: 'solver', prompt: 'go', tools }),
  )
  const { requests } = server
  return { outcome, ran, messages: messagesOf(requests.at(-1)), requests: requests.length }
}

function expectGraded({ workflow, grading }: ContractOutcome): void {
  expectEqual('the failure of the workflow', workflow.failure, null)
  expectEqual('the reward', grading.samples.get('solver')?.reward, 1)
}

function callsIn({ grading, workflow }: ContractOutcome): NonNullable<ChatMessage['tool_calls']> {
  expectEqual('the failure of the workflow', workflow.failure, null)
  const messages = (grading.samples.get('solver')?.trajectoryMessages ?? []) as ChatMessage[]
  return messages.flatMap(({ tool_calls = [] }) => tool_calls)
}

type Delta = Readonly<Record<string, unknown>>

function call(id: string, name: string, written: string, index = 0): Delta {
  return { index, id, type: 'function', function: { name, arguments: written } }
}

function piece(written: string): Delta {
  return { index: 0, function: { arguments: written } }
}

/** A stream of tool calls, of which each list is one chunk. */
function stream(...lists: readonly (readonly Delta[] | { readonly reason: string })[]): Reply {
  const deltas = lists.filter((list): list is readonly Delta[] => Array.isArray(list))
  const ending = lists.find((list): list is { reason: string } => 'reason' in list)
  return fault.raw(
    events(...deltas.map((tool_calls) => ({ delta: { tool_calls } })), {
      delta: {},
      finish_reason: ending?.reason ?? 'tool_calls',
    }),
  )
}

function events(...choices: readonly object[]): string {
  const chunks = choices.map((choice) => ({
    id: 'answer',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'policy',
    choices: [{ index: 0, finish_reason: null, ...choice }],
  }))
  return [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
    .map((data) => `data: ${data}\n\n`)
    .join('')
}
