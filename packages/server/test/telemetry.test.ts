import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { startServer, workflowOf } from './running-server.ts'

/** What the controller sees of a sample with these extra fields, and the warnings it caused. */
async function sent(
  ...extras: Record<string, unknown>[]
): Promise<{ fields: unknown[]; rewards: unknown[] }> {
  let next = 0
  await using running = await startServer({
    workflow: workflowOf(() => {
      const extraFields = extras[next++] ?? {}
      requireRolloutContext('test').registerSampleSource('main', {
        getSample: (id) => ({ ...toRolloutSample({ id, messages: [] }), extraFields }),
      })
    }),
  })
  const samples: { extra_fields: unknown; reward: unknown }[] = []
  for (const index of extras.keys()) {
    await running.post({ rollout_id: `r${index}` })
    await running.controller.bodies(2)
    const { body } = running.controller.callbacks.splice(0)[1] ?? {}
    samples.push((body as { sample: { extra_fields: unknown; reward: unknown } }).sample)
  }
  return {
    fields: samples.map(({ extra_fields }) => extra_fields),
    rewards: samples.map(({ reward }) => reward),
  }
}

describe('telemetry of a sample', () => {
  it('gets its obvious JSON form, or is omitted, at any depth', async () => {
    const cyclic: Record<string, unknown> = { name: 'loop' }
    cyclic['self'] = cyclic
    const shared = { once: 1 }
    const { fields } = await sent(
      {
        list: [1, Number.POSITIVE_INFINITY, undefined, 'x'],
        nested: { nan: Number.NaN, ok: true, none: null },
        twice: [shared, shared],
      },
      {
        map: new Map<unknown, unknown>([
          ['a', 1],
          [2, 'b'],
          [{}, 'dropped'],
        ]),
        set: new Set([1, 2]),
        floats: new Float32Array([0.5, 1]),
        link: new URL('http://x/'),
        date: new Date(Number.NaN),
      },
      { cyclic, symbol: Symbol('s'), big: 2n ** 64n, small: 7n },
      {
        valid: 1,
        get broken() {
          throw new Error('no')
        },
      },
      { deep: Array.from({ length: 5000 }).reduce((inner) => [inner], 'bottom') },
      Object.defineProperty({}, '__proto__', { value: { polluted: 1 }, enumerable: true }),
    )

    expect(fields.slice(0, 4)).toStrictEqual([
      {
        list: [1, null, null, 'x'],
        nested: { ok: true, none: null },
        twice: [{ once: 1 }, { once: 1 }],
      },
      {
        map: { 2: 'b', a: 1 },
        set: [1, 2],
        floats: [0.5, 1],
        link: 'http://x/',
      },
      { cyclic: { name: 'loop' }, small: 7 },
      { valid: 1 },
    ])
    expect(JSON.stringify(fields[4])).toMatch(/^\{"deep":\[{50,100}null\]{50,100}\}$/)
    expect(JSON.stringify(fields[5])).toBe('{"__proto__":{"polluted":1}}')
  })

  it('never loses the reward, whatever it is', async () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
      withNullPrototype: true,
      withBoxedValues: true,
    })
    const extras = fc.sample(fc.dictionary(fc.string(), anything), 60)

    const { rewards } = await sent(...extras)
    expect(rewards).toStrictEqual(extras.map(() => 1))
  })

  it('arrives unchanged when it is plain JSON', async () => {
    const extras = fc.sample(
      fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
      30,
    ) as Record<string, unknown>[]
    // JSON has one zero.
    const plain = JSON.parse(JSON.stringify(extras)) as Record<string, unknown>[]

    const { fields } = await sent(...plain)
    expect(JSON.stringify(fields)).toBe(JSON.stringify(plain))
  })
})
