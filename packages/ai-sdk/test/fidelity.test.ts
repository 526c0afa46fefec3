import { rolloutModel } from '@osmosis/ai-sdk'
import { fault, startPolicyServer } from '@osmosis/testing'
import { extractReasoningMiddleware, generateText, isStepCount, wrapLanguageModel } from 'ai'
import { expect, test } from 'vitest'

import { callAdd, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { tools } from './rollout.ts'

function event(delta: object, finish_reason: string | null = null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`
}

test('flags an empty answer, of which the SDK makes no message', async () => {
  await using server = await startPolicyServer([{ content: '' }, 'now'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = rolloutModel('main')
    const first = await generateText({ model, prompt: 'a' })
    expect(first).toMatchObject({ text: '', responseMessages: [] })
    await generateText({ model, prompt: [user('a'), ...first.responseMessages, user('b')] })
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.trajectoryMessages?.map(({ content }) => content)).toEqual(['a', 'b', 'now'])
  expect(sample.extraFields).toMatchObject({ history_rewritten: true })
})

function user(content: string): { role: 'user'; content: string } {
  return { role: 'user', content }
}

test('a refusal is a text for the SDK and stays a refusal for the policy', async () => {
  await using server = await startPolicyServer([
    fault.raw(`${event({ refusal: 'I will not.' })}${event({}, 'stop')}data: [DONE]\n\n`),
    'fine',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = rolloutModel('main')
    const refused = await generateText({ model, prompt: 'go' })
    expect(refused).toMatchObject({ text: 'I will not.', finishReason: 'content-filter' })
    const messages = [
      { role: 'user' as const, content: 'go' },
      ...refused.responseMessages,
      { role: 'user' as const, content: 'please' },
    ]
    await generateText({ model, messages })
  })
  expect(messagesOf(server.requests[1])[1]).toEqual({
    role: 'assistant',
    content: '',
    refusal: 'I will not.',
  })
  expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
})

test('text that a middleware rewrites is sent as it was rewritten, and flagged', async () => {
  const thought = '<think>Hm.</think>'
  await using server = await startPolicyServer([{ content: `${thought}Hi.` }, 'Bye.'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = wrapLanguageModel({
      model: rolloutModel('main'),
      middleware: extractReasoningMiddleware({ tagName: 'think' }),
    })
    const first = await generateText({ model, prompt: 'go' })
    expect(first).toMatchObject({ text: 'Hi.', reasoningText: 'Hm.' })
    await generateText({
      model,
      messages: [
        { role: 'user', content: 'go' },
        ...first.responseMessages,
        { role: 'user', content: 'more' },
      ],
    })
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toMatchObject({
    history_rewritten: true,
    other_conversations: [[{ content: 'go' }, { content: `${thought}Hi.` }]],
  })
})

test('instructions that change begin another conversation', async () => {
  await using server = await startPolicyServer([callAdd, 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    generateText({
      model: rolloutModel('main'),
      prompt: 'go',
      tools,
      stopWhen: isStepCount(3),
      prepareStep: ({ stepNumber }) => ({ instructions: `This is step ${stepNumber}.` }),
    }),
  )
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toMatchObject({ history_rewritten: true })
  expect(sample.trajectoryMessages?.[0]).toEqual({ role: 'system', content: 'This is step 1.' })
})
