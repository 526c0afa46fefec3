import { RolloutContext, type PolicyCallOptions } from '@osmosis/core'
import {
  CallLog,
  wireTranscript,
  type CallUse,
  type ChatCompletion,
  type ChatMessage,
  type WireTranscript,
} from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { answerStream, sendStream, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const user = (content: string): ChatMessage => ({ role: 'user', content })

async function endpoint(): ReturnType<typeof startPolicyEndpoint> {
  return startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
}

/** Where a call goes when there is another URL for calls that are no training data. */
const routes: readonly (readonly [PolicyCallOptions, 'policy' | 'auxiliary'])[] = [
  [{}, 'policy'],
  [{ trainable: true }, 'policy'],
  [{ purpose: 'title' }, 'policy'],
  [{ purpose: 'judge', trainable: true }, 'policy'],
  [{ trainable: false }, 'auxiliary'],
  [{ purpose: 'agent', trainable: false }, 'auxiliary'],
  [{ purpose: 'judge', trainable: false }, 'auxiliary'],
  [{ headers: { 'x-osmosis-trainable': 'false' } }, 'auxiliary'],
  [{ headers: { 'X-Osmosis-Trainable': 'False' } }, 'auxiliary'],
  [{ headers: { 'x-osmosis-trainable': 'true' } }, 'policy'],
  [{ headers: { 'x-osmosis-trainable': 'false' }, trainable: true }, 'policy'],
]

describe('a call that is no training data', () => {
  it.each(routes)('goes to the URL for such calls: %j to the %s', async (options, target) => {
    const own = { policy: await endpoint(), auxiliary: await endpoint() }
    const context = new RolloutContext({
      rolloutId: 'r',
      chatCompletionsUrl: own.policy.url,
      wire: { auxiliaryUrl: own.auxiliary.url },
    })
    await context.policy('main').complete({ messages: [user('q')] }, options)
    const { headers = {} } = options
    const client = context.policy('other')
    if (options.purpose === undefined && options.trainable === undefined) {
      const body = JSON.stringify({ messages: [user('q')] })
      const url = `${client.baseUrl}/chat/completions`
      await (await client.fetch(url, { method: 'POST', headers, body })).text()
    } else {
      for await (const _ of client.stream({ messages: [user('q')] }, options));
    }
    const asked = [own.policy.requests.length, own.auxiliary.requests.length]
    expect(asked).toEqual(target === 'policy' ? [2, 0] : [0, 2])
  })

  it('goes to the policy where there is no other URL', async () => {
    const policy = await endpoint()
    const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
    for (const [options] of routes) {
      await context.policy('main').complete({ messages: [user('q')] }, options)
    }
    const marks = policy.requests.map(({ headers }) => headers['x-osmosis-trainable'])
    expect(marks).toEqual(routes.map(([, target]) => (target === 'policy' ? undefined : 'false')))
  })
})

/** A call of the agent, or one beside it. */
interface Step {
  readonly use: CallUse
  /** Beside the conversation: on its own, with the conversation so far, or with the question of the agent's next call. */
  readonly asks: 'on its own' | 'the conversation so far' | 'the question'
  /** What the agent does with its history before its next call. */
  readonly history: 'kept' | 'cut' | 'rewritten' | 'taken from beside'
  readonly fails: boolean
}

const agent: CallUse = { purpose: 'agent', trainable: true }
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    use: fc.constantFrom(
      agent,
      agent,
      { purpose: 'title', trainable: false },
      { purpose: 'agent', trainable: false },
    ),
    asks: fc.constantFrom('on its own', 'the conversation so far', 'the question'),
    history: fc.constantFrom('kept', 'kept', 'kept', 'cut', 'rewritten', 'taken from beside'),
    fails: fc.boolean(),
  }),
  { minLength: 1, maxLength: 8 },
)

function completion(content: string): ChatCompletion {
  const message = { role: 'assistant' as const, content }
  return {
    id: content,
    object: 'chat.completion',
    created: 1,
    model: 'policy',
    choices: [{ index: 0, message, finish_reason: 'stop', logprobs: null }],
  }
}

/** The log of these calls; those that `isMade` leaves out are not made. */
function logOf(all: readonly Step[], isMade: (step: Step) => boolean = () => true): CallLog {
  const log = new CallLog()
  let history: ChatMessage[] = []
  let saidBeside: ChatMessage[] = []
  for (const [at, step] of all.entries()) {
    const { use, asks, fails } = step
    const question = user(`q${at}`)
    const said = `a${at}`
    if (use.trainable) {
      if (step.history === 'cut') history = history.slice(0, 1)
      if (step.history === 'rewritten') history = [user(`summary ${at}`)]
      if (step.history === 'taken from beside') history = saidBeside
      history = [...history, question]
    }
    const beside = {
      'on its own': [user(`beside ${at}`)],
      'the conversation so far': [...history, user('a title, please')],
      'the question': [...history, user(`q${at + 1}`)],
    }[asks]
    if (isMade(step)) {
      const about = { ...use, sampling: {}, model: null }
      const call = log.begin(use.trainable ? history : beside, about)
      if (fails) call.fail(new Error('refused'))
      else call.succeed(completion(said))
    }
    if (fails) continue
    const answer: ChatMessage = { role: 'assistant', content: said }
    if (use.trainable) history = [...history, answer]
    else saidBeside = [...beside, answer]
  }
  return log
}

const isOwn = ({ use }: Step): boolean => use.trainable

describe('the record of a sample', () => {
  it('has the calls of the agent as if there were no calls beside them', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const [whole, alone] = [wireTranscript(logOf(all)), wireTranscript(logOf(all, isOwn))]
        const placesOf = (transcript: WireTranscript | undefined): unknown[] =>
          (transcript?.calls ?? [])
            .filter(({ trainable }) => trainable)
            .map(({ id, extendsPrevious, rewrittenAt, answerIndex }) => ({
              id,
              extendsPrevious,
              rewrittenAt: extendsPrevious ? rewrittenAt : 'anywhere',
              answerIndex,
            }))
        expect(placesOf(whole)).toEqual(placesOf(alone))
        if (alone === undefined) return
        expect(whole?.messages).toEqual(alone.messages)
        expect(whole?.historyRewritten).toBe(alone.historyRewritten)
      }),
      { numRuns: 300 },
    )
  })

  it('calls none of them a branch that is no training data', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const calls = wireTranscript(logOf(all))?.calls ?? []
        const beside = calls.filter(({ trainable }) => !trainable)
        expect(beside).toHaveLength(all.filter(({ use }) => !use.trainable).length)
        for (const { extendsPrevious, rewrittenAt } of beside) {
          expect([extendsPrevious, rewrittenAt]).toEqual([true, null])
        }
      }),
      { numRuns: 300 },
    )
  })

  it('has each answer of the agent once as training data, and no other', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const log = logOf(all)
        const trained = log
          .trainedConversations()
          .flatMap(({ messages, answers }) => answers.map((at) => messages[at]?.content))
        const expected = all.flatMap((step, at) => (isOwn(step) && !step.fails ? [`a${at}`] : []))
        expect(new Set(trained)).toEqual(new Set(expected))
        expect(trained).toHaveLength(expected.length)
        expect(log.trainedConversations()).toEqual(logOf(all, isOwn).trainedConversations())
        expect(log.hasOutcome).toBe(all.some(isOwn))
        expect(log.size).toBe(all.length)
      }),
      { numRuns: 300 },
    )
  })

  it('has the place of each answer in its conversation, and none for a call that failed', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { messages = [], calls = [] } = wireTranscript(logOf(all)) ?? {}
        const shown = messages.flatMap(({ role, content }) =>
          role === 'assistant' ? [content] : [],
        )
        for (const { id, error, answerIndex } of calls) {
          const isShown = error === null && shown.includes(id)
          expect(answerIndex === null ? undefined : messages[answerIndex]?.content).toBe(
            isShown ? id : undefined,
          )
        }
      }),
      { numRuns: 300 },
    )
  })

  it('is a conversation of the agent where it has one, whatever was said last', () => {
    const purposes = fc.array(fc.constantFrom('agent', 'summary', 'beside'), {
      minLength: 1,
      maxLength: 6,
    })
    fc.assert(
      fc.property(purposes, (all) => {
        const log = new CallLog()
        for (const [at, purpose] of all.entries()) {
          const use = { purpose, trainable: purpose !== 'beside' }
          const call = log.begin([user(`${purpose} ${at}`)], { ...use, sampling: {}, model: null })
          call.succeed(completion(`a${at}`))
        }
        // Other training data is the next best.
        const own = (['agent', 'summary', 'beside'] as const).find((one) => all.includes(one))
        const last = own === undefined ? -1 : all.lastIndexOf(own)
        expect(wireTranscript(log)?.messages[0]?.content).toBe(`${own} ${last}`)
        expect(wireTranscript(log)?.otherConversations).toHaveLength(all.length - 1)
      }),
    )
  })
})
