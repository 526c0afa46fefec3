import { checkAgentLoop } from './check-agent-loop.ts'
import { loadAgentLoop } from './load-agent-loop.ts'

/** Flags of `osmosis validate`. */
export interface ValidateFlags {
  module: string
}

/** Checks an agent loop and says how many tools it has. Rejects when it cannot serve rollouts. */
export async function validateCommand({ module }: ValidateFlags): Promise<void> {
  const { loop } = await loadAgentLoop(module)
  const { toolCount, warnings } = await checkAgentLoop(loop)
  process.stdout.write(
    `Agent loop '${loop.name}' validated successfully.\n` +
      `  - Tools: ${toolCount}\n` +
      (warnings.length === 0 ? '' : `  - Warnings: ${warnings.length}\n`),
  )
}
