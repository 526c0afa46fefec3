import {
  type PolicyCallOptions,
  RolloutContext,
  toRolloutSample,
  type RolloutSample,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
} from '../../../../test/kit/index.ts'

const user = (content: string): ChatMessage => ({ role: 'user', content })
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content })

/** A rollout whose policy answers `a1`, `a2`, … and fails the calls listed in `failing`. */
async function rollout(failing: readonly number[] = []): Promise<{
  ask: (...messages: ChatMessage[]) => Promise<void>
  askAside: (options: PolicyCallOptions, ...messages: ChatMessage[]) => Promise<void>
  sample: () => Promise<RolloutSample | undefined>
}> {
  const policy = await startPolicyEndpoint((response, n) =>
    failing.includes(n) ? sendJson(response, 400, {}) : sendStream(response, answerStream(`a${n}`)),
  )
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
  context.registerSampleSource('main', {
    getSample: (id) => toRolloutSample({ id, messages: ['native'], extraFields: { own: 1 } }),
  })
  return {
    ask: async (...messages) => {
      await context
        .policy('main')
        .complete({ messages })
        .catch(() => {})
    },
    askAside: async (options, ...messages) => {
      await context.policy('main').complete({ messages }, options)
    },
    sample: async () => (await context.getSamples()).get('main'),
  }
}

describe('the record of a sample', () => {
  it('is the conversation as it went over the wire, with every call measured', async () => {
    const { ask, sample } = await rollout()
    await ask(user('q1'))
    await ask(user('q1'), assistant('a1'), user('q2'))

    const recorded = await sample()
    expect(recorded).toMatchObject({
      id: 'main',
      messages: ['native'],
      trajectoryMessages: [user('q1'), assistant('a1'), user('q2'), assistant('a2')],
      extraFields: { own: 1 },
      reward: null,
    })
    expect(recorded?.calls).toEqual(
      Array.from({ length: 2 }, (_, call) => ({
        id: expect.stringMatching(/^chatcmpl-/),
        startedAt: expect.any(Number),
        durationMs: expect.any(Number),
        timeToFirstChunkMs: expect.any(Number),
        attempts: 1,
        extendsPrevious: true,
        instructionsChanged: false,
        agent: null,
        instructions: null,
        rewrittenAt: null,
        finishReason: 'stop',
        usage,
        model: 'policy',
        version: null,
        purpose: 'agent',
        trainable: true,
        sampling: {},
        promptTokenIds: null,
        completionTokenIds: null,
        logprobs: null,
        error: null,
        answerIndex: 2 * call + 1,
      })),
    )
  })

  it('has no transcript when no call was made', async () => {
    const { sample } = await rollout()
    expect(await sample()).toMatchObject({
      trajectoryMessages: null,
      calls: [],
      extraFields: { own: 1 },
    })
  })

  it('ends with the request when the last call failed', async () => {
    const { ask, sample } = await rollout([2])
    await ask(user('q1'))
    await ask(user('q1'), assistant('a1'), user('q2'))
    const recorded = await sample()
    expect(recorded?.trajectoryMessages).toEqual([user('q1'), assistant('a1'), user('q2')])
    expect(recorded?.calls.map(({ error }) => error)).toEqual([
      null,
      expect.stringContaining('400'),
    ])
  })

  it('counts a repeated request after a failure as the same conversation', async () => {
    const { ask, sample } = await rollout([1])
    await ask(user('q1'))
    await ask(user('q1'))
    expect(await sample()).toMatchObject({
      trajectoryMessages: [user('q1'), assistant('a2')],
      extraFields: { own: 1 },
    })
  })

  it('flags a rewritten history and keeps both conversations', async () => {
    const { ask, sample } = await rollout()
    await ask(user('long'), user('q1'))
    await ask(user('short'), assistant('a1'), user('q2'))
    const recorded = await sample()
    expect(recorded?.trajectoryMessages).toEqual([
      user('short'),
      assistant('a1'),
      user('q2'),
      assistant('a2'),
    ])
    expect(recorded?.extraFields).toEqual({
      own: 1,
      history_rewritten: true,
      other_conversations: [[user('long'), user('q1'), assistant('a1')]],
    })
    expect(recorded?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, false])
    expect(recorded?.calls.map(({ rewrittenAt }) => rewrittenAt)).toEqual([null, 0])
  })

  it('names the first message that was rewritten, also where answers moved', async () => {
    const { ask, sample } = await rollout()
    await ask(user('rules'), user('q1'))
    await ask(user('rules'), user('q1'), assistant('a1'), user('q2'))
    // The window slides over q1.
    await ask(user('rules'), assistant('a1'), user('q2'), assistant('a2'), user('q3'))
    // Cut: nothing new, but no answer has been given here.
    await ask(user('rules'))
    const recorded = await sample()
    expect(recorded?.calls.map(({ rewrittenAt }) => rewrittenAt)).toEqual([null, null, 1, 1])
  })

  it('tells other instructions from a rewritten history, and has each answer with its own', async () => {
    const system = (content: string): ChatMessage => ({ role: 'system', content })
    const { ask, askAside, sample } = await rollout()
    await askAside({ agent: 'Triage' }, system('triage'), user('q1'))
    await ask(system('refund'), user('q1'), assistant('a1'), user('over'))
    // A window that slides is a rewritten history, whatever the instructions are.
    await ask(system('other'), assistant('a2'), user('q2'))
    await ask(user('q1'), assistant('a1'), user('over'), assistant('a2'), user('q3'))

    const recorded = await sample()
    expect(
      recorded?.calls.map(
        ({ agent, rewrittenAt, instructionsChanged, answerIndex, instructions }) => ({
          agent,
          rewrittenAt,
          instructionsChanged,
          answerIndex,
          instructions,
        }),
      ),
    ).toEqual([
      {
        agent: 'Triage',
        rewrittenAt: null,
        instructionsChanged: false,
        answerIndex: 1,
        instructions: [system('triage')],
      },
      {
        agent: null,
        rewrittenAt: 0,
        instructionsChanged: true,
        answerIndex: 3,
        instructions: [system('refund')],
      },
      {
        agent: null,
        rewrittenAt: 0,
        instructionsChanged: false,
        answerIndex: null,
        instructions: null,
      },
      {
        agent: null,
        rewrittenAt: 0,
        instructionsChanged: true,
        answerIndex: 5,
        instructions: null,
      },
    ])
  })

  it('has equal answers of a rewritten history each with its own call', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    const main = context.registerPolicySample('main')
    const messages: ChatMessage[] = []
    for (const question of ['q1', 'q2']) {
      messages.push(user(question))
      await main.complete({ messages })
      messages.push(assistant('ok'))
    }
    await main.complete({ messages: [{ role: 'system', content: 'new' }, ...messages, user('q3')] })
    const recorded = (await context.getSamples()).get('main')
    expect(recorded?.calls.map(({ answerIndex }) => answerIndex)).toEqual([2, 4, 6])
  })

  it('holds interleaved conversations apart, the latest in front', async () => {
    const { ask, sample } = await rollout()
    await ask(user('x'))
    await ask(user('y'))
    await ask(user('x'), assistant('a1'), user('more'))
    const recorded = await sample()
    expect(recorded?.trajectoryMessages).toEqual([
      user('x'),
      assistant('a1'),
      user('more'),
      assistant('a3'),
    ])
    expect(recorded?.extraFields['other_conversations']).toEqual([[user('y'), assistant('a2')]])
    expect(recorded?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([
      true,
      false,
      true,
    ])
  })

  it('holds several answers to one question apart', async () => {
    const { ask, sample } = await rollout()
    await ask(user('q'))
    await ask(user('q'))
    const recorded = await sample()
    expect(recorded?.trajectoryMessages).toEqual([user('q'), assistant('a2')])
    expect(recorded?.extraFields['other_conversations']).toEqual([[user('q'), assistant('a1')]])
  })

  it('records a call that is not training data beside the conversation', async () => {
    const { ask, askAside, sample } = await rollout()
    const aside = { purpose: 'title', trainable: false }
    await askAside(aside, user('title of: q1'))
    await ask(user('q1'))
    await askAside(aside, user('q1'), assistant('a2'), user('a title, please'))
    await ask(user('q1'), assistant('a2'), user('q2'))
    await askAside(aside, user('title of: q2'))

    const recorded = await sample()
    expect(recorded?.trajectoryMessages).toEqual([
      user('q1'),
      assistant('a2'),
      user('q2'),
      assistant('a4'),
    ])
    expect(recorded?.extraFields).toEqual({
      own: 1,
      other_conversations: [
        [user('title of: q1'), assistant('a1')],
        [user('q1'), assistant('a2'), user('a title, please'), assistant('a3')],
        [user('title of: q2'), assistant('a5')],
      ],
    })
    const facts = recorded?.calls.map(({ purpose, trainable, extendsPrevious, answerIndex }) => [
      purpose,
      trainable,
      extendsPrevious,
      answerIndex,
    ])
    expect(facts).toEqual([
      ['title', false, true, null],
      ['agent', true, true, 1],
      ['title', false, true, null],
      ['agent', true, true, 3],
      ['title', false, true, null],
    ])
  })
})
