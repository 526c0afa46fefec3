// A worker process, whose connection is in the environment.
import { startRolloutWorker } from '@osmosis/bullmq'
import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'

/** What workflows do before they call their policy, chosen by the first message. */
const acts: Readonly<Record<string, (ctx: AgentWorkflowContext) => unknown>> = {
  asks: () => {},
  // The test receives the request, and lets it continue.
  'passes a gate': async ({ metadata, rolloutId }) => {
    const { gate } = metadata as { gate: string }
    await fetch(`${gate}/chat/completions`, {
      method: 'POST',
      headers: { 'x-rollout-id': rolloutId, 'x-worker': String(process.pid) },
      body: JSON.stringify({ messages: [] }),
    })
  },
  'kills its worker': () => process.kill(process.pid, 'SIGKILL'),
  'blocks for good': () => {
    for (;;);
  },
}

class Scripted extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const context = requireRolloutContext('Scripted')
    context.registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    await acts[String(ctx.prompt[0]?.['content'])]?.(ctx)
    await context.policy('main').complete({ messages: [{ role: 'user', content: 'go' }] })
  }
}

class One extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

const workflowConfig = defineWorkflowConfig({ name: 'scripted' })
await startRolloutWorker({
  url: process.env['QUEUE_URL'] ?? '',
  backend: new LocalBackend({ workflow: Scripted, workflowConfig, grader: One }),
  concurrency: Number(process.env['QUEUE_CONCURRENCY'] ?? 20),
  code: 'c1',
  lockDurationMs: Number(process.env['QUEUE_LOCK_MS']),
  stalledIntervalMs: 500,
})
process.stdout.write('ready\n')
