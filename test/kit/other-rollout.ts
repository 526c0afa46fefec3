import { RolloutContext } from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

/**
 * Declares the test of an adapter whose models belong to the rollout that made them: one that is made in one rollout and
 * kept on purpose serves the others, which make none of their own.
 *
 * @param make - makes an agent in the rollout that is active, and returns a function that runs it
 */
export function servesWhereItIsKept(make: () => () => Promise<unknown>): void {
  it('what one rollout makes is part of another, if it is the only one that the program makes', async () => {
    await using server = await startPolicyServer(() => 'said')
    const [first, second] = ['rollout-1', 'rollout-2'].map(
      (rolloutId) => new RolloutContext({ rolloutId, chatCompletionsUrl: server.url }),
    ) as [RolloutContext, RolloutContext]
    const start = first.run(make)
    await second.run(start)
    expect(() => recordOf(first).throwUnnoticedError()).not.toThrow()
    expect(server.requests.map(({ headers }) => headers['x-rollout-id'])).toEqual(['rollout-2'])
  })
}
