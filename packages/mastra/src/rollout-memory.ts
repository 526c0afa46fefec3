import { randomUUID } from 'node:crypto'

import { requireRolloutContext, type RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

/** The option `memory` of a run of an agent. */
export interface MastraThread {
  readonly thread: string
  readonly resource: string
}

const resources = sharedByCopies(
  'mastra.memory-resources',
  () => new WeakMap<RolloutContext, string>(),
)

/**
 * A thread of memory that belongs to the current rollout alone, also in a storage that outlives it: `agent.generate(messages,
 * { memory: rolloutMemory() })`. Its resource belongs to the rollout as well, because working memory and recall
 * can span the threads of a resource.
 *
 * @param name - of the thread, for agents that must not read one another's messages
 * @throws OsmosisError with code `no_rollout_context` outside of rollouts
 */
export function rolloutMemory(name = 'main'): MastraThread {
  const rollout = requireRolloutContext('rolloutMemory()')
  let resource = resources.get(rollout)
  if (resource === undefined) {
    // Ids of rollouts come again: an evaluation that is resumed runs the same rollout once more.
    resource = `${rollout.rolloutId}/${randomUUID()}`
    resources.set(rollout, resource)
  }
  return { thread: `${resource}/${name}`, resource }
}
