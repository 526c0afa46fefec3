import type { DeliveryKind } from './account.ts'
import type { Chance } from './chance.ts'

/** What arrives of something that was told once: usually just that. */
export type BrokenDelivery = (id: string, kind: DeliveryKind, body: string) => readonly string[]

const withOtherReward = (body: string): string =>
  body.replaceAll(/"reward":[\d.e-]+/g, '"reward":0.25')

const waysToBreak = {
  /** What was told comes a second time, with another reward. */
  double: (body: string) => [body, body.replace('"status":', '"again":true,"status":')],
  /** What was acknowledged never arrived. */
  drop: () => [],
  /** Rewards are made up on the way. */
  lie: (body: string) => [withOtherReward(body)],
  /** Failures arrive as successes. */
  embellish: (body: string) => [
    body
      .replace('"status":"failure"', '"status":"success"')
      .replace('"status":"ERROR"', '"status":"COMPLETED"'),
  ],
} satisfies Record<string, (body: string) => string[]>

/** How a delivery can be broken on purpose, to see that this is noticed: `each` way with other rollouts. */
export type WayToBreak = keyof typeof waysToBreak | 'each'

export function isWayToBreak(name: string): name is WayToBreak {
  return name === 'each' || Object.hasOwn(waysToBreak, name)
}

/** Breaks the delivery of every tenth rollout, or of every seventh in each way; nothing without a way. */
export function breakDelivery(way: WayToBreak | undefined, chance: Chance): BrokenDelivery {
  const each = Object.values(waysToBreak)
  return (id, _, body) => {
    const luck = chance(id, 'broken')
    if (way === 'each') return each[Math.floor(luck * 7)]?.(body) ?? [body]
    return way !== undefined && luck < 0.1 ? waysToBreak[way](body) : [body]
  }
}
