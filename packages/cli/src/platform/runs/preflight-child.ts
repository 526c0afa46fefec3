import { errorMessage } from '@osmosis/core'

import { checkAgentLoop } from '../../agent-loop/check-agent-loop.ts'
import { loadEntrypoint } from '../../inputs/load-entrypoint.ts'
import type { PreflightReport } from './preflight.ts'

// Started by `preflight`, in a process of its own: what an entrypoint does when it is imported is
// its own business, and it may never end.
const [entrypoint = ''] = process.argv.slice(2)

function report(said: PreflightReport): void {
  process.send?.(said, () => process.exit())
}

try {
  const loaded = await loadEntrypoint(entrypoint)
  if (loaded.kind === 'agent-loop') {
    await checkAgentLoop(loaded.loop)
    report({ kind: 'agent-loop', missing: [] })
  } else {
    const { grader, workflowConfig, graderConfig } = loaded.entrypoint
    const parts = { grader, 'workflow config': workflowConfig, 'grader config': graderConfig }
    const missing = Object.entries(parts).flatMap(([name, part]) =>
      part === undefined ? [name] : [],
    )
    report({ kind: 'workflow', missing })
  }
} catch (error) {
  report({ kind: 'failed', message: errorMessage(error), isDependency: isMissingDependency(error) })
}

/** A package that is not installed here may be installed where the run is. */
function isMissingDependency(error: unknown): boolean {
  const { cause, code } = error as { cause?: unknown; code?: unknown }
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') {
    return /Cannot find (package|module) '(?![./])/.test(errorMessage(error))
  }
  return cause !== undefined && isMissingDependency(cause)
}
