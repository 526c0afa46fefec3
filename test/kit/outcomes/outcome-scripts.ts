import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import {
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'

const never = new Promise<never>(() => undefined)

async function ask(ctx: AgentWorkflowContext, sampleId = 'main'): Promise<void> {
  const context = requireRolloutContext('the outcome table')
  const messages: unknown[] = [...ctx.prompt]
  context.registerSampleSource(sampleId, { getSample: (id) => toRolloutSample({ id, messages }) })
  const answer = await context.policy(sampleId).complete({ messages: [...ctx.prompt] as never })
  messages.push({ role: 'assistant', content: answer.choices[0]?.message.content })
}

function fail(error: unknown): never {
  throw error
}

/** What the workflows of the outcome table do, by name. */
export const workflows = {
  'asks once': async (ctx) => ask(ctx),
  'asks twice': async (ctx) => {
    await ask(ctx, 'a')
    await ask(ctx, 'b')
  },
  throws: () => fail(new Error('boom')),
  'throws a validation error': () => fail(new TypeError('no such tool')),
  'throws something without text': () => fail(Object.create(null)),
  'throws a timeout': () => fail(new DOMException('tool too slow', 'TimeoutError')),
  'gives the error of the policy a text': async () => {
    const policy = requireRolloutContext('the outcome table').policy('main')
    await policy.complete({ messages: [] }).catch(() => {
      throw Object.assign(new Error('the policy is down'), { status: 503 })
    })
  },
  'never ends': async () => never,
  'names two samples alike': async (ctx) => {
    await ask(ctx, 'twin')
    await ask(ctx, 'twin')
  },
  'has a source that throws': () => {
    requireRolloutContext('the outcome table').registerSampleSource('main', {
      getSample: () => fail(new Error('the session has ended')),
    })
  },
  'registers nothing': () => undefined,
  'has metrics without a JSON form': (ctx) => {
    requireRolloutContext('the outcome table').registerSampleSource('main', {
      getSample: (id) =>
        toRolloutSample({
          id,
          messages: ctx.prompt,
          metrics: { score: 0.5, ratio: Number.NaN, at: new Date(0), tokens: 12n },
          extraFields: { done: () => true, kinds: new Set(['a']), by: new Map([['b', 1]]) },
        }),
    })
  },
  'has messages that cannot be encoded': () => {
    requireRolloutContext('the outcome table').registerSampleSource('main', {
      getSample: (id) =>
        toRolloutSample({ id, messages: [{ tokens: 2n ** 70n }], metrics: { score: 1 } }),
    })
  },
  'calls process.exit': async () => {
    process.exit(0)
    await never
  },
  'throws in a timer': async () => {
    setTimeout(() => fail(new Error('thrown in a timer')), 1)
    await never
  },
  'leaves a rejection': async () => {
    void Promise.reject(new Error('forgotten await'))
    await never
  },
  'loses its first worker before it asks': async (ctx) => {
    const lost = path.join(String(ctx.artifactsDir), 'lost')
    if (!existsSync(lost)) {
      writeFileSync(lost, '')
      process.kill(process.pid, 'SIGKILL')
      await never
    }
    await ask(ctx)
  },
  'loses every worker': async () => {
    process.kill(process.pid, 'SIGKILL')
    await never
  },
  'loses its worker after it asked': async (ctx) => {
    await ask(ctx)
    process.kill(process.pid, 'SIGKILL')
    await never
  },
} satisfies Record<string, (ctx: AgentWorkflowContext) => unknown>

/** What the graders of the outcome table do, by name. */
export const graders = {
  'gives each sample 1': (ctx) => {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  },
  'gives a reward and throws': (ctx) => {
    ctx.setReward(0.5)
    fail(new Error('judge fell asleep'))
  },
  'gives nothing': () => undefined,
  'names an unknown sample': (ctx) => ctx.setSampleReward('nope', 1),
  'gives NaN': (ctx) => ctx.setReward(Number.NaN),
  'never ends': async () => never,
  'gives a reward and removes the sample': (ctx) => {
    ctx.setReward(0.5)
    ctx.removeSample('main')
  },
  'calls process.exit': async () => {
    process.exit(0)
    await never
  },
  'throws in a timer': async () => {
    setTimeout(() => fail(new Error('thrown in a timer')), 1)
    await never
  },
  'loses its worker': async () => {
    process.kill(process.pid, 'SIGKILL')
    await never
  },
} satisfies Record<string, (ctx: GraderContext) => unknown>
