// A worker in a process of its own, to be killed. Its explorer and its journal come from the environment.
import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { runTrainerWorker, trinity } from '@osmosis/trainer-links'

class AsksTwice extends AgentWorkflow {
  async run({ prompt, signal }: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('AsksTwice').registerPolicySample('main')
    for (let turn = 0; turn < 2; turn += 1) await policy.complete({ messages: prompt }, { signal })
  }
}

class ByPlace extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const { row } = ctx.metadata as { row: number }
    ctx.setReward(row + (ctx.group?.attempt ?? 0) / 10)
  }
}

const { EXPLORER: url = '', JOURNAL: journalFile = '' } = process.env
const dataset = Array.from({ length: 6 }, (_, row) => ({
  initialMessages: [{ role: 'user', content: `row ${row}` }],
  label: null,
  metadata: { row },
}))
const link = trinity({ url, journalFile, dataset, attempts: 4, groupsPerCommit: 2, runName: 'run' })
await runTrainerWorker({
  backend: new LocalBackend({ workflow: AsksTwice, grader: ByPlace }),
  link,
  concurrency: 8,
})
await link[Symbol.asyncDispose]()
