import {
  AgentLoopValidationError,
  formatIssue,
  validateAgentLoop,
  type RolloutAgentLoop,
  type ValidationReport,
} from '@osmosis/agent-loop'

import type { ValidateLoopFlags } from './validate.ts'
import { loadAgentLoop } from '../inputs/load-entrypoint.ts'
import { printError, printOut } from '../command/surroundings.ts'

/** Checks an agent loop and says how many tools it has. Rejects when it cannot serve rollouts. */
export async function validateCommand({ module }: ValidateLoopFlags): Promise<void> {
  const { loop } = await loadAgentLoop(module)
  const { toolCount, warnings } = await checkAgentLoop(loop)
  printOut(
    `Agent loop '${loop.name}' validated successfully.\n` +
      `  - Tools: ${toolCount}\n` +
      (warnings.length === 0 ? '' : `  - Warnings: ${warnings.length}\n`),
  )
}

/**
 * Checks a loop before it is used, and says on stderr what looks wrong with it.
 *
 * @throws AgentLoopValidationError when it cannot serve rollouts
 */
export async function checkAgentLoop(loop: RolloutAgentLoop): Promise<ValidationReport> {
  const report = await validateAgentLoop(loop)
  if (!report.valid) throw new AgentLoopValidationError(report.errors)
  for (const warning of report.warnings) {
    printError(`warning: ${formatIssue(warning)}\n`)
  }
  return report
}
