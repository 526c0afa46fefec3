import assert from 'node:assert/strict'

import { isOsmosisError, lastAssistantText } from '@osmosis/core'

import { startPolicyServer } from '../policy-server.ts'
import type { ContractCase } from './adapter-under-test.ts'
import { executeRollout } from './contract-rollout.ts'
import type { ContractRule } from './contract-rules.ts'

/** What was never said by the policy is not graded. */
export const unaskedCases = {
  'leaves-out-unasked': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    const { grading } = await executeRollout(server, async () => {
      await adapter.construct('critic')
      await adapter.run({ name: 'solver', prompt: 'go' })
    })
    assert.equal(grading.status, 'success')
    assert.deepEqual([...grading.samples.keys()], ['solver'])
  },

  'names-unasked': async (adapter) => {
    await using server = await startPolicyServer([], adapter)
    const { grading } = await executeRollout(server, async () => {
      await adapter.construct('solver')
      await adapter.construct('critic')
    })
    const { cause, message = '' } = grading.failure ?? {}
    assert.ok(isOsmosisError(cause) && cause.code === 'no_samples', message)
    assert.match(message, /"solver", "critic".*`await`/)
  },

  'unawaited-is-no-success': async (adapter) => {
    await using server = await startPolicyServer(['done'], adapter)
    let left: Promise<unknown> = Promise.resolve()
    const { grading } = await executeRollout(server, async () => {
      left = Promise.allSettled([adapter.run({ name: 'solver', prompt: 'go' })])
    })
    await left
    // Frameworks that read every answer to its end by themselves may have it in time.
    const sample = grading.samples.get('solver')
    if (sample) {
      assert.equal(lastAssistantText(sample), 'done')
      return
    }
    const { cause, message = '' } = grading.failure ?? {}
    assert.ok(isOsmosisError(cause) && cause.code === 'no_samples', message)
    assert.match(message, /`await`/)
  },
} satisfies Partial<Record<ContractRule, ContractCase>>
