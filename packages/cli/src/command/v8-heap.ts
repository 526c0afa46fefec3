import { setFlagsFromString } from 'node:v8'

/**
 * Keeps the memory of commands that go through very many rollouts small: V8 would set aside 128 MiB
 * for what is garbage at once, and 16 do as well.
 */
export function keepYoungGenerationSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
}

/**
 * For commands that run rollouts. V8 guesses from where objects are made which of them will live long, and
 * makes those among the old ones at once. It takes many objects of a rollout for such, because they live as
 * long as their rollout does. There they stay until a full collection, and so does all that they refer
 * to, conversations included: with 64 rollouts in flight ten times as much gets old, and collections of
 * the young take twice as long.
 */
export function disablePretenuring(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}
