import { errorCategory, RolloutContext } from '@osmosis/core'

import {
  eventually,
  expectEqual,
  expectMatch,
  expectRejection,
  expectRequests,
  expectThat,
} from '../contract-expectations.ts'
import { fault } from '../policy-reply.ts'
import { startPolicyServer } from '../policy-server.ts'
import type { ContractCase, ContractRule, ContractTool } from './adapter-rules.ts'
import {
  addTool,
  type ContractOutcome,
  contractRollout,
  executeRollout,
  messagesOf,
  runWithRequests,
} from './contract-rollout.ts'

const callAdd = {
  content: 'Let me add that up.',
  toolCalls: [{ id: 'call-1', name: 'add', arguments: '{"a":1,"b":2}' }],
}

/** An error ends the run, is reported once, and never becomes an answer. */
export const failureCases = {
  'retries-before-answer': async (adapter) => {
    await using server = await startPolicyServer([fault.status(503), 'done'], adapter)
    const text = await runWithRequests(server, 2, contractRollout(server), async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    expectEqual('the text of the run', text, 'done')
  },

  'refused-once': async (adapter) => {
    await using server = await startPolicyServer(() => fault.status(401), adapter)
    const run = contractRollout(server).run(async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    await expectHttpError(run)
    expectRequests(server, 1)
  },

  'logs-tool-errors': async (adapter) => {
    await using server = await startPolicyServer([callAdd, 'done'], adapter)
    const written = await stderrOf(async () =>
      runWithRequests(server, 2, contractRollout(server), async () =>
        adapter.run({ name: 'solver', prompt: 'go', tools: [closedShop] }),
      ),
    )
    const lines = written.filter((text) => text.includes('the shop is closed'))
    expectEqual('the number of lines on stderr', lines.length, 1)
    expectMatch(
      'the line on stderr',
      lines[0],
      /"rollout_id":"rollout-1","tool":"add",.*"thrown":"TypeError: the shop is closed\\n +at .*\n$/,
    )
  },

  'stays-within-egress': async (adapter) => {
    await using server = await startPolicyServer(() => 'this is out of reach', adapter)
    const rollout = new RolloutContext({
      rolloutId: 'rollout-1',
      chatCompletionsUrl: server.url,
      egress: { privateAddresses: 'refuse' },
    })
    await expectHttpError(rollout.run(async () => adapter.run({ name: 'solver', prompt: 'go' })))
    expectRequests(server, 0)
  },

  'refuses-cut-answers': async (adapter) => {
    const answer = 'an answer of which only half will ever arrive'
    await using server = await startPolicyServer(
      () => fault.on(answer, { cutAfterBytes: adapter.streams === false ? 70 : 700 }),
      adapter,
    )
    const { workflow, grading } = await executeRollout(server, async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    expectRequests(server, 1)
    expectEqual('the failure category of the workflow', workflow.failure?.category, 'http_error')
    expectEqual('the status of the grading', grading.status, 'failure')
    expectEqual('the graded samples', [...grading.samples.keys()], [])
  },

  'fails-hidden-failures': async (adapter) => {
    for (const failure of [fault.status(400), fault.on('half of it', { cutAfterBytes: 60 })]) {
      await using server = await startPolicyServer([callAdd, failure, 'done'], adapter)
      const asksAnother: ContractTool = {
        ...addTool,
        execute: async () => adapter.run({ name: 'helper', prompt: 'help' }),
      }
      const outcome = await executeRollout(server, async () =>
        // Frameworks differ in whether the run continues with a text that reports the error.
        Promise.allSettled([adapter.run({ name: 'solver', prompt: 'go', tools: [asksAnother] })]),
      )
      const { workflow } = outcome
      expectEqual('the failure category of the workflow', workflow.failure?.category, 'http_error')
      expectUnrewarded('a rollout whose tool called the policy in vain', outcome)
    }
  },

  'keeps-failed-runs': async (adapter) => {
    await using server = await startPolicyServer([callAdd, fault.status(400)], adapter)
    const rollout = contractRollout(server)
    await expectHttpError(
      rollout.run(async () => adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] })),
    )
    expectRequests(server, 2)
    await expectConversationSoFar(rollout, server.requests[1])
  },

  'aborts-for-real': async (adapter) => {
    await using server = await startPolicyServer([callAdd, fault.hang('body')], adapter)
    const rollout = contractRollout(server)
    const abort = new AbortController()
    const run = rollout.run(async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool], signal: abort.signal }),
    )
    const hanging = await eventually('a second request', server.waitForRequest(1), run)
    abort.abort()
    // Frameworks differ in whether an aborted run rejects; it must not continue.
    await eventually('the aborted run to end', Promise.allSettled([run]))
    const closed = await eventually('the socket of the policy to close', hanging.closed)
    expectThat(closed, 'the client to close the socket of the policy', 'a complete answer')
    expectRequests(server, 2)
    await expectConversationSoFar(rollout, hanging)
  },

  'rewards-no-left-answer': async (adapter) => {
    await using server = await startPolicyServer(() => unendedAnswer, adapter)
    const aborted = await executeRollout(server, async () => {
      const abort = new AbortController()
      const run = adapter.run({ name: 'solver', prompt: 'go', signal: abort.signal })
      const settled = Promise.allSettled([run])
      await eventually('a request', server.waitForRequest(0), run)
      abort.abort()
      // Frameworks differ in whether an aborted run rejects.
      await settled
    })
    expectUnrewarded('an aborted answer', aborted)
    if (adapter.leaveStream === undefined || adapter.streams === false) return
    const left = await executeRollout(server, async () =>
      adapter.leaveStream?.({ name: 'solver', prompt: 'go' }),
    )
    expectUnrewarded('an answer whose stream was left', left)
  },

  'ends-at-deadline': async (adapter) => {
    await using server = await startPolicyServer(() => fault.hang('headers'), adapter)
    const { workflow } = await executeRollout(
      server,
      async () => adapter.run({ name: 'solver', prompt: 'go' }),
      { agentTimeoutSeconds: 0.5 },
    )
    expectEqual('the failure category of the workflow', workflow.failure?.category, 'timeout')
    // On a very slow machine the deadline comes before the first request.
    if (server.requests.length > 0) expectRequests(server, 1)
    for (const request of server.requests) {
      const closed = await eventually('the socket of the policy to close', request.closed)
      expectThat(closed, 'the client to close the socket of the policy', 'a complete answer')
    }
  },

  'ends-at-limit': async (adapter) => {
    let calls = 0
    const callAgain = (): object => ({
      ...callAdd,
      toolCalls: [{ ...callAdd.toolCalls[0], id: `call-${(calls += 1)}` }],
    })
    await using server = await startPolicyServer(callAgain, adapter)
    const { workflow, grading } = await executeRollout(
      server,
      async () => adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
      { rolloutLimits: { modelCalls: 2 } },
    )
    expectRequests(server, 2)
    expectEqual('the failure of the workflow', workflow.failure, null)
    const sample = grading.samples.get('solver')
    expectEqual('the reward', sample?.reward, 1)
    expectEqual('limit_reached', sample?.extraFields['limit_reached'], 'modelCalls')
    const messages = JSON.stringify(sample?.trajectoryMessages)
    expectMatch('trajectoryMessages', messages, /sum: 3[^]*Let me add that up\./)
  },
  'ends-at-context': async (adapter) => {
    const full = fault.status(400, { body: { error: { message: contextIsFull, code: 400 } } })
    await using server = await startPolicyServer([callAdd, full, full, full], adapter)
    const { workflow, grading } = await executeRollout(server, async () =>
      adapter.run({ name: 'solver', prompt: 'go', tools: [addTool] }),
    )
    expectEqual('the failure of the workflow', workflow.failure, null)
    const sample = grading.samples.get('solver')
    expectEqual('the reward', sample?.reward, 1)
    expectEqual('limit_reached', sample?.extraFields['limit_reached'], 'context')

    await using early = await startPolicyServer([full, full, full], adapter)
    const { workflow: unsaid } = await executeRollout(early, async () =>
      adapter.run({ name: 'solver', prompt: 'go' }),
    )
    expectEqual('the failure category of the workflow', unsaid.failure?.category, 'http_error')
    expectMatch('its message', unsaid.failure?.message, /prompt alone does not fit/)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>

/** An answer whose text is there, and whose end never comes. */
const unendedAnswer = fault.on('It is 3.', {
  oneFatChunk: true,
  omit: ['finish', 'usage'],
  hang: 'body',
})

function expectUnrewarded(what: string, { workflow, grading }: ContractOutcome): void {
  const rewards = [...grading.samples.values()].map(({ reward }) => reward)
  expectEqual(
    `the rewards of ${what}`,
    rewards.filter((reward) => reward !== null),
    [],
  )
  const failure = workflow.failure ?? grading.failure
  expectThat(failure !== null, `a failure of ${what}`, failure)
}

const contextIsFull =
  "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please reduce the length of the input messages."

const closedShop: ContractTool = {
  ...addTool,
  execute() {
    throw new TypeError('the shop is closed')
  },
}

/** What is written to stderr while `run` runs. */
async function stderrOf(run: () => Promise<unknown>): Promise<string[]> {
  const written: string[] = []
  const { stderr } = process
  const before = Object.getOwnPropertyDescriptor(stderr, 'write')
  stderr.write = (text: unknown) => written.push(String(text)) > 0
  try {
    await run()
  } finally {
    if (before) Object.defineProperty(stderr, 'write', before)
    else Reflect.deleteProperty(stderr, 'write')
  }
  return written
}

async function expectHttpError(run: Promise<unknown>): Promise<void> {
  const error = await expectRejection('the run', run)
  const category = errorCategory(error)
  expectThat(category === 'http_error', 'the run to reject with a http_error', error)
}

/** The sample holds the first answer and the result of its tool call, up to the failed request. */
async function expectConversationSoFar(
  rollout: RolloutContext,
  lastRequest: Parameters<typeof messagesOf>[0],
): Promise<void> {
  const sample = (await rollout.getSamples()).get('solver')
  const messages = JSON.stringify(sample?.messages)
  expectMatch('the messages of the sample', messages, /Let me add that up\.[^]*sum: 3/)
  expectEqual('trajectoryMessages', sample?.trajectoryMessages, messagesOf(lastRequest))
}
