// A rollout server in a process of its own whose rollouts fail with ten megabytes each, and whose log
// goes to stderr as that of a user's server does. Sends its port to its parent.
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { LocalBackend, createRolloutServer, serve } from '@osmosis/server'

const line = 'a line of what the tool said, which is long\n'
const said = Buffer.from(line.repeat((10 * 1024 * 1024) / line.length)).toString()

class FailAtLength extends AgentWorkflow {
  override async run({ rolloutId }: AgentWorkflowContext): Promise<void> {
    throw new Error(`The tool failed in ${rolloutId}: ${said}`)
  }
}

const workflowConfig = defineWorkflowConfig({ name: 'fail-at-length' })
const server = createRolloutServer({
  backend: new LocalBackend({ workflow: FailAtLength, workflowConfig }),
  trajectories: false,
})
const { port } = await serve(server, { port: 0, handleSignals: false })
process.on('disconnect', () => process.exit())
process.send?.(port)
