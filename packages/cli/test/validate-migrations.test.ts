import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

import { describe, expect, it, onTestFinished } from 'vitest'

import { here, run, useProcesses } from './in-process.ts'
import {
  agents,
  asked,
  findings,
  lineOf,
  loop,
  main,
  migrated,
  page,
  problems,
  session,
} from './migrated-workspace.ts'

// Mistakes that are made when an agent is moved to this SDK: each is named with its place, what to change and where to read about it.

/** A model that is not the policy. */
async function otherModel(): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content: '3' } }] }))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

/** Of the adapter that the project has. */
const newModel =
  'Give the agent OsmosisRolloutModel of @osmosis/openai-agents instead of its old model, and await its run.'
const inRun =
  'Make what holds a conversation inside run(): the agent, the session, the memory, the list of messages. One process runs many rollouts.'

describe('osmosis validate names a mistake of a migration', () => {
  it('a model that is asked past the policy', { tags: 'slow' }, async () => {
    useProcesses()
    const url = await otherModel()
    // Graders may ask a model, and a tool any other service.
    const judge = `await fetch('${url}/responses', { method: 'POST', body: '{}' }); ctx.setReward(1)`
    const source = agents(
      `${session}
    ${asked}
    await fetch('${url}/chat/completions?key=1', { method: 'POST', body: '{}' })
    await fetch('${url}/prices', { method: 'POST', body: '{}' })`,
      '',
      judge,
    )
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'warn',
        check: 'other model',
        message: `run() asked ${url}/chat/completions, past the policy: that answer is in no sample, and is not trained.`,
        file: main,
        line: lineOf(source, 'await fetch'),
        advice: `${newModel} A second model of the program goes through the adapter too, with trainable: false.`,
        page: page('openai-agents/docs/frameworks/openai-agents.md'),
      },
    ])
  })

  it('an agent of the framework that keeps its model', { tags: 'slow' }, async () => {
    useProcesses()
    const OPENAI_BASE_URL = await otherModel()
    const keeps = `await run(new Agent({ name: 'one', model: 'gpt-4.1' }), ctx.prompt)`
    const source = agents(keeps)
    migrated(source)
    const [finding] = await problems({ OPENAI_BASE_URL, OPENAI_API_KEY: 'k' })
    expect(finding).toStrictEqual({
      level: 'fail',
      check: 'model calls',
      message: `No model call reached the policy: run() asked ${OPENAI_BASE_URL}/responses.`,
      file: main,
      line: lineOf(source, keeps),
      advice: newModel,
      page: page('openai-agents/docs/frameworks/openai-agents.md'),
    })
  })

  it('an agent that is made outside of run()', async () => {
    const made = `const agent = new OsmosisAgent({ name: 'one', model: new OsmosisRolloutModel() })`
    const source = agents(`await run(agent, ctx.prompt)`, made)
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'entrypoint',
        message: expect.stringMatching(
          /^Cannot load the entrypoint \S+main\.ts:\nOsmosisError: An OsmosisAgent [^\n]*construct it inside AgentWorkflow\.run\(\)[^\n]*$/,
        ) as string,
        file: main,
        line: lineOf(source, made),
        advice:
          'Move what needs the rollout into run() of the workflow, or give its model a fallback.',
        page: page('core/docs/guides/troubleshooting.md#in-a-workflow'),
      },
    ])
  })

  it('a run without a session', async () => {
    const without = `await run(createAgent(), ctx.prompt)`
    const source = agents(without)
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'rollout',
        message: expect.stringContaining('a run without an OsmosisMemorySession') as string,
        file: main,
        line: lineOf(source, without),
        advice:
          'Make a session inside run() of the workflow, and pass it to each run() of the framework, also to one that continues.',
        page: page('core/docs/guides/troubleshooting.md#in-a-workflow'),
      },
    ])
  })

  it('an approval that run() never gives', async () => {
    const waits = `await run(createAgent([count]), ctx.prompt, { session })`
    const source = agents(
      `${session}
    const count = tool({ name: 'count', description: '', parameters: z.object({}), needsApproval: true, execute: () => '3' })
    ${waits}`,
    )
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'rollout',
        message: expect.stringContaining(
          'waits until the program approves or rejects count()',
        ) as string,
        file: main,
        line: lineOf(source, waits),
        advice:
          'Answer approvals inside run() of the workflow, e.g. as ctx.metadata of the row says, and resume the run.',
        page: page('core/docs/guides/troubleshooting.md#in-a-workflow'),
      },
    ])
  })

  it('a session that all rollouts share', async () => {
    const shared = `session ??= new OsmosisMemorySession({ name: 'main' })`
    const source = agents(`${shared}\n${asked}`, 'let session')
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'second rollout',
        message: expect.stringMatching(
          /ended with failure: .*The OsmosisMemorySession "main" of/,
        ) as string,
        file: main,
        line: lineOf(source, asked),
        advice: inRun,
        page: page('core/docs/guides/troubleshooting.md#in-a-workflow'),
      },
    ])
  })

  it('a run without a session that only the second rollout comes to', async () => {
    const source = agents(
      `${session}
    await run(createAgent(), ctx.prompt, rollouts++ === 0 ? { session } : {})`,
      'let rollouts = 0',
    )
    migrated(source)
    expect(await problems()).toMatchObject([
      {
        check: 'second rollout',
        message: expect.stringContaining('a run without an OsmosisMemorySession') as string,
        advice:
          'Make a session inside run() of the workflow, and pass it to each run() of the framework, also to one that continues. The first rollout did not fail with this: either the policy answered it otherwise, or it has left something behind.',
      },
    ])
  })

  it('a list of messages that all rollouts share', async () => {
    migrated(
      loop('history.push(...ctx.prompt); history.push(await ask(history))', 'const history = []'),
    )
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'second rollout',
        message: 'A second rollout in the same process began with 1 answer of the first one.',
        file: main,
        advice: inRun,
        page: page('core/docs/guides/workflows.md#concurrency'),
      },
    ])
  })

  it.each([
    [
      'beside a session',
      agents(`${session}
    const { history } = await run(createAgent(), ctx.prompt, { session })
    const list = [...history, { role: 'user', content: 'Really?' }]
    const sessionInputCallback = (stored, given) => [...stored, ...given]
    await run(createAgent(), list, { session, sessionInputCallback })`),
    ],
    [
      'in a loop',
      loop(`const history = [...ctx.prompt]
    history.push(await ask(history))
    await ask([...history, ...history, { role: 'user', content: 'Really?' }])`),
    ],
    ['from its first request on', loop('await ask([...ctx.prompt, ...ctx.prompt])')],
  ])('a history that is added to itself: %s', async (_where, source) => {
    migrated(source)
    expect(await problems()).toContainEqual({
      level: 'warn',
      check: 'history',
      message:
        'A request says the same question twice, as if the history were added to itself (sample main): the policy reads everything twice.',
      file: main,
      advice: 'Let either the session or the program keep the history, and pass ctx.prompt once.',
      page: page('core/docs/frameworks/index.md'),
    })
  })

  it('a grader that reads a field that no row has', async () => {
    const grade = `ctx.setReward(ctx.metadata.solution === '3' ? 1 : 0)`
    const source = agents(`${session}\n${asked}`, '', grade)
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'warn',
        check: 'grader',
        message: 'The grader reads ctx.metadata.solution, which no row has. There is: answer.',
        file: main,
        line: lineOf(source, grade),
        advice:
          'Read a field that the rows have, or write it into the metadata in data/words.jsonl.',
        page: page('core/docs/guides/graders.md#the-context'),
      },
    ])
  })

  it('an old model that misses its key', async () => {
    migrated(agents(`throw new Error('Could not find API key process.env.OPENROUTER_API_KEY')`))
    expect(await problems()).toContainEqual(
      expect.objectContaining({
        check: 'rollout',
        advice: expect.stringMatching(/^Look for an agent that has kept its old model/) as string,
      }),
    )
  })

  it('a grader that reads columns that are in no metadata', async () => {
    const grade = `ctx.setReward(ctx.metadata?.answer === 3 ? 1 : 0)`
    const source = agents(`${session}\n${asked}`, '', grade)
    migrated(source, [{ user_prompt: 'How many?', ground_truth: '3', answer: 3, source: 'a' }])
    expect(await problems()).toStrictEqual([
      {
        level: 'warn',
        check: 'grader',
        message: 'The grader reads ctx.metadata, and no row has any. Not read: "answer", "source".',
        file: main,
        line: lineOf(source, grade),
        advice:
          'Name the columns that the grader needs in the config, e.g. [columns] metadata = ["answer", "source"], or label for what the agent must not see.',
        page: page('cli/docs/guides/datasets.md#columns'),
      },
    ])
  })

  it('no fault in a grader that prints the metadata', async () => {
    migrated(
      agents(
        `${session}\n${asked}`,
        '',
        `process.getBuiltinModule('util').inspect(ctx.metadata); ctx.setReward(1)`,
      ),
    )
    expect(await problems()).toStrictEqual([])
  })

  it('a grader that computes with a field that is not there', async () => {
    const grade = `ctx.setReward(ctx.metadata.answer.points * 2)`
    const source = agents(`${session}\n${asked}`, '', grade)
    migrated(source)
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'rollout',
        message: expect.stringMatching(/thrown by grade\(\) at .*finite number, got NaN/) as string,
        file: main,
        line: lineOf(source, grade),
        advice:
          'Give a finite number: look for a field that is not there, and for a division by zero.',
        page: page('core/docs/guides/troubleshooting.md#in-a-grader'),
      },
    ])
  })

  it('a label that never arrives', async () => {
    const source = agents(`${session}\n${asked}`)
    migrated(source, [{ user_prompt: 'How many?', answer: '3', metadata: { level: 1 } }])
    expect(await problems()).toStrictEqual([
      {
        level: 'fail',
        check: 'label',
        message: `The grader reads the label (${main}:${lineOf(source, 'ctx.setReward')}), and no row has one. Not read: "answer".`,
        file: 'data/words.jsonl',
        line: 1,
        advice: 'Name the column with the answer: ground_truth, or [columns] label in the config.',
        page: page('cli/docs/guides/datasets.md#columns'),
      },
    ])
  })

  it('nothing about a label or a field that other rows have', async () => {
    const grade = `ctx.setReward(ctx.label ?? ctx.metadata.hint ? 1 : 0)`
    const others = { user_prompt: 'And now?', ground_truth: '3', metadata: { hint: '3' } }
    migrated(agents(`${session}\n${asked}`, '', grade), [
      { user_prompt: 'How many?', metadata: { level: 1 } },
      others,
    ])
    expect(await problems()).toStrictEqual([])
  })

  it('nothing about a policy behind a URL of the rollout itself', { tags: 'slow' }, async () => {
    useProcesses()
    migrated(
      loop(
        `const proxy = await createPolicyProxy(policy)
    const body = JSON.stringify({ model: 'm', messages: ctx.prompt })
    const headers = { authorization: 'Bearer ' + proxy.apiKey, 'content-type': 'application/json' }
    const answer = await fetch(proxy.url + '/chat/completions', { method: 'POST', headers, body })
    await answer.text()
    await proxy.close()`,
        `import { createPolicyProxy } from '@osmosis/proxy'`,
      ),
    )
    expect(await problems()).toStrictEqual([])
  })

  it('nothing about what a grader compares with the metadata', async () => {
    const grade = `structuredClone(ctx.metadata)
    ctx.setReward(isDeepStrictEqual({ total: 3 }, ctx.metadata.wanted) ? 1 : 0)`
    const source = agents(
      `${session}\n${asked}`,
      `import { isDeepStrictEqual } from 'node:util'`,
      grade,
    )
    migrated(source, [{ user_prompt: 'How many?', metadata: { wanted: { total: 3 } } }])
    const found = await findings()
    expect(found.filter(({ level }) => level !== 'ok')).toStrictEqual([])
    expect(found).toContainEqual({ level: 'ok', check: 'reward', message: '1 for main' })
  })

  it('a tool that throws', { tags: 'slow' }, async () => {
    useProcesses()
    const thrown = `throw new TypeError('shop db down')`
    const source = `import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { AgentWorkflow, defineWorkflowConfig, Grader } from '@osmosis/core'
import { tool } from 'ai'
import { z } from 'zod'
export const config = defineWorkflowConfig({ name: 'one' })
const count = tool({
  description: 'Counts.',
  inputSchema: z.object({}),
  execute: () => { ${thrown} },
})
export class One extends AgentWorkflow {
  async run(ctx) {
    const agent = new OsmosisToolLoopAgent({ id: 'main', model: rolloutModel(), tools: { count } })
    await agent.generate({ messages: toModelMessages(ctx.prompt) })
  }
}
export class Judge extends Grader {
  async grade(ctx) { ctx.setReward(1) }
}
`
    migrated(source)
    const found = await findings()
    expect(found).toContainEqual({
      level: 'ok',
      check: 'tools',
      message: 'the policy can call count',
    })
    expect(found.filter(({ level }) => level !== 'ok')).toStrictEqual([
      {
        level: 'warn',
        check: 'tools',
        message: 'count failed: TypeError: shop db down',
        file: main,
        line: lineOf(source, thrown),
        advice: expect.stringMatching(/^It takes no arguments, so it needs something/) as string,
        page: page('core/docs/guides/workflows.md#tools-that-need-the-outside-world'),
      },
    ])
  })

  it.each([
    ['{}', [], /^It takes no arguments, so it needs something that this machine lacks/],
    ['{ at: z.string() }', [], /^Its arguments were made from its schema: .* \(--policy <file>\)/],
    ['{ at: z.string() }', ['--policy', 'calls.ts'], /^Check whether it should fail for the arg/],
  ])('why a tool with the parameters %s failed, called with %j', async (parameters, args, why) => {
    const failing = `const read = tool({ name: 'read', description: 'Reads.', parameters: z.object(${parameters}), execute: () => { throw new Error('no bus') } })`
    migrated(
      agents(`${session}\n${asked.replace('createAgent()', 'createAgent([read])')}`, failing),
    )
    const policy = `export const policy = { name: 'calls', respond: async ({ body }) => Response.json({ choices: [{ index: 0, finish_reason: 'stop', message:
  body.messages.at(-1).role === 'tool' ? { role: 'assistant', content: '3' } : { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'read', arguments: '{"at":"x"}' } }] } }] }) }`
    writeFileSync(here('calls.ts'), policy)
    const { stdout } = await run(['validate', 'one', '--json', ...args])
    const { rollouts } = JSON.parse(stdout) as { rollouts: { findings: { advice?: string }[] }[] }
    const warned = rollouts[0]?.findings.filter(({ advice }) => advice !== undefined)
    expect(warned).toMatchObject([{ check: 'tools', advice: expect.stringMatching(why) as string }])
  })
})
