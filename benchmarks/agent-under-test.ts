// An agent in a process of its own, either before its migration or after it: what an adapter does to
// its framework must not be counted for the agent that has none.
//
//   node benchmarks/agent-under-test.ts <framework> <before|after> <url>
import { RolloutContext } from '@osmosis/core'

import type { AgentRuns } from './agents/agent-runs.ts'

/** Requests a round of runs. The answer is the CPU time of one run. Milliseconds. */
export interface Round {
  way: keyof AgentRuns
  runs: number
  inFlight: number
}

const [framework = '', state, url = ''] = process.argv.slice(2)
const agents = (await import(`./agents/${framework}.ts`)) as {
  before(url: string): AgentRuns | Promise<AgentRuns>
  after(): AgentRuns
}
const agent = state === 'after' ? agents.after() : await agents.before(url)

process.on('message', (round: Round) => {
  void measure(round).then((cpu) => process.send?.(cpu))
})
process.on('disconnect', () => process.exit())
process.send?.('ready')

async function measure({ way, runs, inFlight }: Round): Promise<number> {
  let left = runs
  const cpuBefore = process.cpuUsage()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left > 0) {
        left -= 1
        const said = state === 'after' ? await inRollout(agent[way]) : await agent[way]()
        if (!said.includes('word0 word1')) throw new Error(`the agent said ${said}`)
      }
    }),
  )
  const { user, system } = process.cpuUsage(cpuBefore)
  return (user + system) / 1000 / runs
}

let rollouts = 0

/** What a rollout adds to the run of an agent: its context, and the sample that is graded. */
async function inRollout(run: () => Promise<string>): Promise<string> {
  rollouts += 1
  const context = new RolloutContext({ rolloutId: `rollout-${rollouts}`, chatCompletionsUrl: url })
  const said = await context.run(run)
  const samples = await context.getSamples()
  if (samples.size !== 1) throw new Error(`the rollout has ${samples.size} samples`)
  return said
}
