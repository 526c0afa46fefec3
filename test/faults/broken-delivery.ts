import type { DeliveryKind } from './account.ts'
import type { Chance } from './chance.ts'

/** The bodies that arrive for one delivered body: usually that one. */
export type BrokenDelivery = (id: string, kind: DeliveryKind, body: string) => readonly string[]

const withOtherReward = (body: string): string =>
  body.replaceAll(/"reward":[\d.e-]+/g, '"reward":0.25')

const waysToBreak = {
  /** The body arrives a second time, changed. */
  double: (body: string) => [body, body.replace('"status":', '"again":true,"status":')],
  /** The acknowledged body never arrives. */
  drop: () => [],
  /** Rewards are changed. */
  lie: (body: string) => [withOtherReward(body)],
  /** Failures arrive as successes. */
  embellish: (body: string) => [
    body
      .replace('"status":"failure"', '"status":"success"')
      .replace('"status":"ERROR"', '"status":"COMPLETED"'),
  ],
} satisfies Record<string, (body: string) => string[]>

/** How to break deliveries, to test that the account detects it; `each` breaks some rollouts in each way. */
export type WayToBreak = keyof typeof waysToBreak | 'each'

export function isWayToBreak(name: string): name is WayToBreak {
  return name === 'each' || Object.hasOwn(waysToBreak, name)
}

/** Breaks the delivery of one rollout in ten, or of one in seven in each way; nothing without a way. */
export function breakDelivery(way: WayToBreak | undefined, chance: Chance): BrokenDelivery {
  const each = Object.values(waysToBreak)
  return (id, _, body) => {
    const luck = chance(id, 'broken')
    if (way === 'each') return each[Math.floor(luck * 7)]?.(body) ?? [body]
    return way !== undefined && luck < 0.1 ? waysToBreak[way](body) : [body]
  }
}
