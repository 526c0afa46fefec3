import { LocalBackend } from '@osmosis/server/execution'

import { grader, registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'
import { containUserCode } from '../../src/containment/contain-user-code.ts'
import { harms } from './harmful-code.ts'
import { sharedConnections } from './shared-connections.ts'

/**
 * Runs rollouts concurrently in a process that contains user code, and prints the outcome of each as a
 * line of JSON: one for each way to harm the process, which it is named after, in the phase that the
 * command line names, and as many healthy ones.
 */
const [, , harmfulPhase] = process.argv

const say = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
const undo = containUserCode({
  onUnattributed: (error, origin) => say({ unattributed: String(error), origin }),
  onLate: (rolloutId, { message }) => say({ late: rolloutId, message }),
})

const connections = await sharedConnections()
const allHarms = { ...harms, ...connections.harms }
const warm = Promise.withResolvers<void>()
const ends = Promise.withResolvers<void>()

async function userCode(
  phase: string,
  { rolloutId, signal }: { rolloutId: string; signal: AbortSignal },
): Promise<void> {
  if (phase !== harmfulPhase) return
  if (rolloutId === 'healthy 0') await connections.warmUp().finally(warm.resolve)
  await warm.promise
  const harm = allHarms[rolloutId]
  if (harm === undefined) return ends.promise
  harm(`harm of ${rolloutId}`)
  if (signal.aborted) return
  await new Promise(() => undefined)
}

const backend = new LocalBackend({
  maxConcurrent: 1000,
  workflow: workflow(async (ctx) => {
    registerSamples('s')
    await userCode('workflow', ctx)
  }),
  grader: grader(async (ctx) => {
    await userCode('grader', ctx)
    ctx.setReward(1)
  }),
})

async function execute(rolloutId: string): Promise<void> {
  const limits = { agentTimeoutSeconds: 20, graderTimeoutSeconds: 20 }
  const { completion, grading } = await run(backend, { rolloutId, ...limits })
  const { status, failure } = grading ?? completion
  const { message = null, category = null } = failure ?? {}
  say({ id: rolloutId, status, message, category })
}

const healthy = Array.from({ length: 50 }, (_, index) => execute(`healthy ${index}`))
await Promise.all(Object.keys(allHarms).map(execute))
ends.resolve()
await Promise.all(healthy)
await connections.close()
undo()
say({ exit: process.exit.name })
