import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { createPolicyEndpoint, recordPolicy, scriptedPolicy } from '@osmosis/controller'
import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
  type RolloutSample,
} from '@osmosis/core'
import { createPolicyProxy } from '@osmosis/proxy'
import { LocalBackend, runToEnd } from '@osmosis/server'
import { startPolicyServer } from '@osmosis/testing'
import OpenAI from 'openai'
import { expect, it } from 'vitest'

import { rolloutOn, sampleOf } from '../kit/index.ts'

const go = { role: 'user' as const, content: 'go' }

it('an SDK that takes a base URL asks through a proxy, and nothing is lost', async () => {
  await using server = await startPolicyServer([{ content: 'done', reasoning: 'hm' }])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const proxy = await createPolicyProxy(rollout.registerPolicySample('main'))
    const client = new OpenAI({ baseURL: proxy.url, apiKey: 'unused', maxRetries: 0 })
    await client.chat.completions.create({ model: 'policy', messages: [go] })
    await proxy.close()
  })
  expect(server.requests[0]?.headers).toMatchObject({
    authorization: 'Bearer key',
    'x-rollout-id': 'rollout-1',
    'x-sample-id': 'main',
  })
  const sample = await sampleOf(rollout)
  expect(sample.messages).toEqual([
    go,
    { role: 'assistant', content: 'done', reasoning_content: 'hm' },
  ])
  expect(sample.calls).toHaveLength(1)
})

it('a program of its own asks through a proxy', async () => {
  await using server = await startPolicyServer(['done'])
  const program = `
    const answer = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }] }),
    })
    console.log((await answer.json()).choices[0].message.content)`
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const proxy = await createPolicyProxy(rollout.registerPolicySample('main'))
    const args = ['--input-type=module', '--eval', program]
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      env: { OPENAI_BASE_URL: proxy.url },
    })
    await proxy.close()
    expect(stdout).toBe('done\n')
  })
  expect((await sampleOf(rollout)).messages).toEqual([go, { role: 'assistant', content: 'done' }])
})

/** Asks the endpoint itself, past the policy client. */
class PastTheClient extends AgentWorkflow<{ key: string }> {
  async run(ctx: AgentWorkflowContext): Promise<unknown> {
    const rollout = requireRolloutContext('The agent')
    const client = new OpenAI({
      baseURL: rollout.chatCompletionsUrl,
      apiKey: this.config.key,
      defaultHeaders: { 'x-rollout-id': rollout.rolloutId, 'x-sample-id': 'sample' },
    })
    const messages = [...ctx.prompt] as OpenAI.ChatCompletionMessageParam[]
    const { choices } = await client.chat.completions.create({ model: 'policy', messages })
    return [...messages, choices[0]?.message]
  }
}

class RewardAll extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
    seen.push(ctx.sample)
  }
}
const seen: RolloutSample[] = []

it('past the policy client only the controller records, and trainers have nothing to train on', async () => {
  const policy = recordPolicy(scriptedPolicy(() => 'done'))
  const recording = policy.record('rollout-1')
  await using endpoint = await createPolicyEndpoint({ policy })
  const { chatCompletionsUrl, llmApiKey } = endpoint.admit('rollout-1')
  const workflowConfig = { key: llmApiKey }
  const backend = new LocalBackend({ workflow: PastTheClient, workflowConfig, grader: RewardAll })
  let first = 0
  const end = await runToEnd(
    backend,
    {
      rolloutId: 'rollout-1',
      initialMessages: [go],
      label: 'done',
      metadata: null,
      chatCompletionsUrl,
      apiKey: llmApiKey,
      agentTimeoutSeconds: 20,
      graderTimeoutSeconds: 20,
      grade: true,
    },
    { gates: { beforeFirstModelCall: async () => void (first += 1) } },
  )
  // Reading the URL counts as a call that is about to leave.
  expect(first).toBe(1)
  const said = [go, { role: 'assistant', content: 'done' }]
  expect(recording.samples().get('sample')).toMatchObject({
    messages: said,
    calls: [{ error: null }],
  })
  expect(seen).toMatchObject([{ messages: said, trajectoryMessages: null, calls: [] }])
  expect(end).toMatchObject({
    kind: 'failed',
    message: expect.stringContaining('nothing to train on'),
  })
})
