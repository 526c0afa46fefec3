import { expect, it } from 'vitest'

import { agents, findings, loop, main, migrated, page, session } from './migrated-workspace.ts'

// What `osmosis validate` says of the samples of a rollout: their calls, what of them is trained, and where trainers split them.

const triage = `const to = new OsmosisAgent({ name: 'refunds', instructions: 'Refund.', model: new OsmosisRolloutModel() })
    const agent = new OsmosisAgent({ name: 'triage', instructions: 'Sort.', model: new OsmosisRolloutModel(), handoffs: [to] })`

it('names the agents of a sample, and a handoff as one', async () => {
  migrated(agents(`${session}\n${triage}\nawait run(agent, ctx.prompt, { session })`))
  const found = await findings()
  expect(found.filter(({ level }) => level !== 'ok')).toEqual([])
  expect(found.filter(({ check }) => check === 'sample' || check === 'handoff')).toEqual([
    {
      level: 'ok',
      check: 'sample',
      message:
        "main: 2 model calls (triage 1, refunds 1), answered by validate's own policy; 2 answers are trained",
    },
    {
      level: 'ok',
      check: 'handoff',
      message:
        'main: triage to refunds. The trainer splits the conversation where the instructions change, and each part has the reward of the sample.',
    },
  ])
})

it('says what is not trained, and how a second task under one sample is kept out', async () => {
  migrated(
    loop(`await ask(ctx.prompt)
    const title = [{ role: 'user', content: 'A title?' }]
    await policy.complete({ messages: title }, { trainable: false })
    await ask([{ role: 'user', content: 'In short?' }])`),
  )
  const found = await findings()
  expect(found.filter(({ check }) => check === 'sample')).toMatchObject([
    {
      message:
        "main: 3 model calls, answered by validate's own policy; 2 answers are trained; 1 with trainable: false",
    },
  ])
  expect(found.filter(({ check }) => check === 'history')).toEqual([
    {
      level: 'warn',
      check: 'history',
      message:
        'A model call did not continue the conversation before it (sample main): training splits the conversation there, and sees its parts as separate ones.',
      file: main,
      advice:
        'Append to the messages instead of trimming, summarising or reordering them. Another task, such as that of a sub-agent, needs a sample of its own, or trainable: false where it is not to be trained.',
      page: page('core/docs/guides/workflows.md#several-agents'),
    },
  ])
})

const toolAgent = (options: string, more = '') => `${session}
    const helper = new OsmosisAgent({ name: 'helper', instructions: 'Help.', model: new OsmosisRolloutModel(${options}) })
    const ask = helper.asTool({ toolName: 'ask', toolDescription: '', ${more} })
    const agent = new OsmosisAgent({ name: 'main', instructions: 'Ask.', model: new OsmosisRolloutModel(), tools: [ask] })
    await run(agent, ctx.prompt, { session })`

const ownTool = `const ask = tool({ name: 'ask', description: '', parameters: z.object({ input: z.string() }),
      execute: async ({ input }) => (await run(helper, input, { session: new OsmosisMemorySession({ name: 'helper-1' }) })).finalOutput })`

it('advises first about an agent as a tool, where another agent began anew in a sample', async () => {
  migrated(agents(toolAgent('')))
  expect((await findings()).filter(({ check }) => check === 'history')).toMatchObject([
    {
      level: 'warn',
      advice:
        'Another agent (helper) began a conversation of its own in the sample, as an agent does that is called as a tool. Give its model trainable: false, or its run a sample of its own. If it went on with the conversation of the first agent, append to the messages instead of trimming, summarising or reordering them.',
    },
  ])
})

it.each([
  ['whose answers are not trained', toolAgent('{ trainable: false }')],
  [
    'with a session of its own',
    toolAgent('', `runOptions: { session: new OsmosisMemorySession({ name: 'helper' }) }`),
  ],
  ['that gets a session for each question', toolAgent('').replace(/const ask = .*/, () => ownTool)],
])('has nothing against an agent as a tool %s', async (_what, body) => {
  migrated(agents(body))
  expect((await findings()).filter(({ check }) => check === 'history')).toEqual([])
})

it('names the tools that the policy did not call', async () => {
  migrated(
    agents(`${session}
    const made = (name) => tool({ name, description: '', parameters: z.object({}), execute: () => '3' })
    await run(createAgent([made('count'), made('pay'), made('ship')]), ctx.prompt, { session })`),
  )
  const found = await findings()
  expect(found.filter(({ check }) => check === 'tools')).toEqual([
    { level: 'ok', check: 'tools', message: 'the policy can call count, pay, ship' },
    {
      level: 'ok',
      check: 'tools',
      message: 'the policy did not call pay, ship; try another --row, or a --policy that does',
    },
  ])
})

it('says what ended run() although the rollout is graded', async () => {
  migrated(
    agents(`${session}
    const count = tool({ name: 'count', description: '', parameters: z.object({}), execute: () => '3' })
    await run(createAgent([count]), ctx.prompt, { session, maxTurns: 1 })`),
  )
  const found = await findings()
  expect(found.filter(({ check }) => check === 'run()')).toEqual([
    {
      level: 'warn',
      check: 'run()',
      message: expect.stringMatching(
        /^run\(\) did not return, and the rollout is graded: the limit max_turns ended it: .*1/,
      ) as string,
      advice:
        'Check whether the limit fits the task, and whether the framework takes such answers.',
      page: page('core/docs/guides/workflows.md#limits'),
    },
  ])
  expect(found.filter(({ check }) => check === 'reward')).toHaveLength(1)
})

it.each([[null], [[null]], [[{ id: 'a', type: 'custom', custom: { name: 'note', input: '' } }]]])(
  'has nothing against a message of the program with %j as its calls',
  async (calls) => {
    const said = JSON.stringify({ role: 'assistant', content: 'Two.', tool_calls: calls })
    migrated(loop(`await ask([...ctx.prompt, ${said}, { role: 'user', content: 'Sure?' }])`))
    expect((await findings()).filter(({ level }) => level !== 'ok')).toEqual([])
  },
)
