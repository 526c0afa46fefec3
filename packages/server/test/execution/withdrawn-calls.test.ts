import { requireRolloutContext } from '@osmosis/core'
import { LocalBackend, runToEnd } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { grader, request, workflow } from '../../../../test/kit/executed-rollouts.ts'
import {
  answerStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

it.each([404, 410])(
  'an agent that takes no notice of a withdrawal (%d) calls the policy no more',
  async (status) => {
    const policy = await startPolicyEndpoint((response, n) => {
      // The other calls would be answered.
      if (n === 2) sendJson(response, status, { error: { message: 'no such rollout' } })
      else sendStream(response, answerStream('yes'))
    })
    const answered: boolean[] = []
    const backend = new LocalBackend({
      workflow: workflow(async () => {
        const client = requireRolloutContext('The agent').registerPolicySample('main')
        for (let n = 0; n < 5; n += 1) {
          const made = client.complete({ messages })
          const isAnswered = await made.then(
            () => true,
            () => false,
          )
          answered.push(isAnswered)
        }
      }),
      grader: grader((ctx) => ctx.setReward(1)),
    })
    const end = await runToEnd(
      backend,
      request({ chatCompletionsUrl: policy.url, wire: { ownRoute: true } }),
    )
    expect(end).toMatchObject({ kind: 'cancelled', by: 'trainer' })
    expect(policy.requests).toHaveLength(2)
    expect(answered.slice(0, 2)).toEqual([true, false])
    expect(answered.slice(2)).not.toContain(true)
  },
)
