// A worker that is broken on purpose: it calls the policy without setting the mark, so a rollout that is lost
// with it is executed a second time.
import { parseArgs } from 'node:util'

import { startRolloutWorker } from '@osmosis/bullmq'
import {
  LocalBackend,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutRequest,
} from '@osmosis/server'

import {
  EchoedReward,
  FaultyWorkflow,
  graderConfig,
  workflowConfig,
} from '../faults/served/workflow.ts'

const { values } = parseArgs({
  allowPositionals: true,
  options: {
    redis: { type: 'string', default: '' },
    concurrency: { type: 'string', default: '' },
    'lock-duration': { type: 'string', default: '' },
  },
})

class UnmarkedBackend extends LocalBackend {
  override execute(request: RolloutRequest, gates: ModelCallGates): AsyncIterable<RolloutEvent> {
    return super.execute(request, { ...gates, beforeFirstModelCall: async () => {} })
  }
}

await startRolloutWorker({
  url: values.redis,
  backend: new UnmarkedBackend({
    workflow: FaultyWorkflow,
    workflowConfig,
    grader: EchoedReward,
    graderConfig,
  }),
  concurrency: Number(values.concurrency),
  code: process.env['OSMOSIS_CODE_VERSION'] ?? '',
  lockDurationMs: Number(values['lock-duration']) * 1000,
  stalledIntervalMs: Number(values['lock-duration']) * 500,
})
console.log('Taking rollouts')
