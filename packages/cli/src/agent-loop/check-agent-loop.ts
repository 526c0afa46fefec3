import {
  AgentLoopValidationError,
  formatIssue,
  validateAgentLoop,
  type RolloutAgentLoop,
  type ValidationReport,
} from '@osmosis/agent-loop'

/**
 * Checks a loop before it is used, and says on stderr what looks wrong with it.
 *
 * @throws AgentLoopValidationError when it cannot serve rollouts
 */
export async function checkAgentLoop(loop: RolloutAgentLoop): Promise<ValidationReport> {
  const report = await validateAgentLoop(loop)
  if (!report.valid) throw new AgentLoopValidationError(report.errors)
  for (const warning of report.warnings) {
    process.stderr.write(`warning: ${formatIssue(warning)}\n`)
  }
  return report
}
