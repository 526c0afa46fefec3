import {
  OsmosisError,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
  type RolloutSampleInit,
} from '@osmosis/core'

const never = new Promise<void>(() => {})

/** What workflows of the contract do, by name. A workflow that waits for the test calls its policy. */
export const workflowScripts = {
  'one-sample': () => register('main'),
  'two-samples': () => register('a', 'b'),
  'no-sample': () => {},
  calls: async () => {
    register('main')
    await callPolicy('main', 'q1')
  },
  'calls-twice': async () => {
    register('main')
    await callPolicy('main', 'q1')
    await callPolicy('main', 'q2')
  },
  'calls-three-times': async () => {
    register('main')
    for (const question of ['q1', 'q2', 'q3']) await callPolicy('main', question)
  },
  'nests-too-deeply': async () => {
    let nested: unknown[] = []
    for (let depth = 0; depth < 2_000; depth += 1) nested = [nested]
    registerAs('main', { messages: [nested] })
    await callPolicy('main', 'q1')
  },
  'ignores-failed-call': async () => {
    register('main')
    await callPolicy('main', 'q1').catch(() => {})
  },
  'calls-and-throws': async () => {
    await callPolicy('main', 'q1')
    throw new Error('after the answer')
  },
  'never-calls': () => {
    requireRolloutContext('contract').registerSampleSource('agent', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
      requiresModelCall: true,
    })
  },
  throws: () => {
    throw new Error('boom')
  },
  'throws-without-message': () => {
    throw new RangeError()
  },
  'throws-text': () => {
    // oxlint-disable-next-line typescript/only-throw-error -- users do
    throw 'just a text'
  },
  'throws-own-timeout': () => {
    throw new DOMException('the tool took too long', 'TimeoutError')
  },
  'throws-status': () => {
    throw new Error('the judge failed', {
      cause: new OsmosisError('policy_http_error', 'refused', { status: 503 }),
    })
  },
  'throws-uncloneable': () => {
    throw Object.assign(new Error('holds a socket'), { socket: { write: () => {} } })
  },
  'throws-cycle': () => {
    // oxlint-disable-next-line typescript/only-throw-error -- users do
    throw uncloneableCycle('holds itself')
  },
  // As the errors of HTTP clients refer to their request.
  'throws-cyclic-cause': () => {
    const refused = new OsmosisError('policy_http_error', 'refused', {
      status: 503,
      cause: uncloneableCycle('the response'),
    })
    throw new Error('the judge answered 503', { cause: refused })
  },
  'repeats-name': () => register('main', 'main'),
  'source-throws': () => {
    requireRolloutContext('contract').registerSampleSource('main', {
      getSample: () => {
        throw new Error('no messages')
      },
    })
  },
  never: async () => {
    register('main')
    await never
  },
  blocks: () => block(150),
  'records-group': ({ group }) =>
    registerAs('main', { messages: [{ role: 'user', content: group }] }),
  'rich-sample': () => registerAs('main', richSample),
  'uncloneable-sample': () => registerAs('main', uncloneableSample()),
  'returns-object': () => {
    register('main', 'second')
    return { items: ['Zoë 😀', 2.5, null], open: false, note: undefined }
  },
  'returns-instance': () => {
    register('main')
    return { when: new Date(0) }
  },
} satisfies Record<string, (ctx: AgentWorkflowContext) => unknown>

/** What graders of the contract do, by name. */
export const graderScripts = {
  rewards: (ctx) => {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  },
  'removes-first': (ctx) => {
    const [first = '', ...others] = ctx.samples.keys()
    ctx.removeSample(first)
    for (const id of others) ctx.setSampleReward(id, 0.5)
  },
  'rewards-steps': (ctx) => {
    ctx.setReward(1)
    ctx.setStepRewards('main', [0.5, null])
  },
  'records-group': (ctx) => {
    ctx.sample.metrics['group'] = ctx.group
    ctx.setReward(1)
  },
  'records-input': (ctx) => {
    ctx.sample.metrics['seen'] = ctx.sample.messages.length
    ctx.sample.extraFields['by'] = ctx.rolloutId
    ctx.sample.label = 'recorded'
    ctx.setReward(0.25)
  },
  'records-output': (ctx) => {
    const [first = ''] = ctx.samples.keys()
    for (const [id, sample] of ctx.samples) {
      if (id === first) sample.label = JSON.stringify(ctx.output)
      ctx.setSampleReward(id, 1)
    }
  },
  throws: () => {
    throw new Error('gboom')
  },
  nothing: () => {},
  'not-a-number': (ctx) => ctx.setReward(Number.NaN),
  unknown: (ctx) => ctx.setSampleReward('nope', 1),
  never: async () => never,
  blocks: (ctx) => {
    block(150)
    ctx.setReward(1)
  },
  // A grader has no policy, so the address comes with the row.
  'waits-for-test': async (ctx) => {
    const { gate } = ctx.metadata as { gate: string }
    await fetch(`${gate}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-rollout-id': ctx.rolloutId },
      body: JSON.stringify({ messages: [] }),
      signal: ctx.signal,
    })
    ctx.setReward(1)
  },
} satisfies Record<string, (ctx: GraderContext) => unknown>

/** A sample with every kind of value that changes on the way to another process. */
export const richSample = {
  messages: [
    {
      role: 'assistant',
      content: 'Zoë 😀 \u0000',
      parts: [{ n: 1.5, list: [null, undefined, true] }],
    },
  ],
  label: 'own label',
  metrics: { nan: Number.NaN, infinite: -Infinity, missing: undefined, turns: 3 },
  extraFields: {
    when: new Date(0),
    map: new Map([['k', new Set([1])]]),
    big: 2n ** 70n,
    bytes: new Uint8Array([1, 2]),
  },
} satisfies Omit<RolloutSampleInit, 'id'>

class Money {
  readonly #cents: number
  constructor(cents: number) {
    this.#cents = cents
  }
  toJSON(): string {
    return `${this.#cents} ct`
  }
}

class Turn {
  readonly role = 'assistant'
  readonly content = 'hi'
  shout(): string {
    return this.content.toUpperCase()
  }
}

function uncloneableSample(): Omit<RolloutSampleInit, 'id'> {
  return {
    messages: [new Turn(), { role: 'user', content: 'x', cost: new Money(5), run: () => {} }],
    metrics: {
      fine: 1,
      log: () => {},
      get broken(): never {
        throw new Error('closed')
      },
    },
    extraFields: {
      cost: new Money(7),
      proxy: new Proxy({ a: 1 }, {}),
      list: [() => {}, 2],
      symbol: Symbol('s'),
      pending: Promise.resolve(1),
      cycle: uncloneableCycle('in a sample'),
    },
  }
}

/** An object that contains itself, and a function that cannot be cloned. */
function uncloneableCycle(message: string): object {
  const cycle = { message, list: [] as unknown[], retry: () => {} }
  cycle.list.push(cycle)
  return cycle
}

function register(...names: string[]): void {
  for (const name of names) {
    registerAs(name, { messages: [{ role: 'assistant', content: `answer of ${name}` }] })
  }
}

function registerAs(name: string, init: Omit<RolloutSampleInit, 'id'>): void {
  requireRolloutContext('contract').registerSampleSource(name, {
    getSample: (id) => toRolloutSample({ id, ...init }),
  })
}

async function callPolicy(sampleId: string, content: string): Promise<void> {
  const policy = requireRolloutContext('contract').policy(sampleId)
  await policy.complete({ messages: [{ role: 'user', content }] })
}

/** Blocks the thread without using the processor. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}
