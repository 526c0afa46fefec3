import { AgentLoopValidationError, formatIssue, validateAgentLoop } from '@osmosis/agent-loop'
import { causes, errorMessage, isOsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import type { RowCheck } from '@osmosis/eval'
import type { WorkerEntrypoint } from '@osmosis/server/child'

import { loadEntrypoint, type LoadedEntrypoint } from '../inputs/load-entrypoint.ts'
import { hasSchema, rowCheckOf } from './served-workflow.ts'

/** What a process reports about the entrypoint that it has loaded. */
export type EntrypointReport =
  | {
      readonly kind: 'workflow'
      /** Parts that the module does not export: `grader`, `workflow config`, `grader config`. */
      readonly missing: readonly string[]
      readonly hasSchema: boolean
    }
  | {
      readonly kind: 'agent-loop'
      readonly name: string
      readonly toolCount: number
      /** Why the loop cannot serve rollouts; null when it can. */
      readonly problem: string | null
      readonly warnings: readonly string[]
    }
  | {
      readonly kind: 'failed'
      readonly message: string
      /** Of the error of the SDK that loading it threw; null when it threw another one. */
      readonly code: OsmosisErrorCode | null
      readonly isDependency: boolean
    }

/** Loads an entrypoint, says what it is, and checks rows by its schemas. */
export async function loadForInspection(spec: string): Promise<WorkerEntrypoint> {
  let loaded: LoadedEntrypoint
  try {
    loaded = await loadEntrypoint(spec)
  } catch (error) {
    const isDependency = isMissingDependency(error)
    const [, cause] = causes(error)
    const code = isOsmosisError(cause) ? cause.code : null
    return { facts: { kind: 'failed', message: errorMessage(error), code, isDependency } }
  }
  const check = loaded.kind === 'workflow' ? rowCheckOf(loaded.entrypoint) : undefined
  return {
    facts: await inspect(loaded),
    answer: async (rows) => check?.(rows as Parameters<RowCheck>[0]),
  }
}

async function inspect(loaded: LoadedEntrypoint): Promise<EntrypointReport> {
  if (loaded.kind === 'agent-loop') {
    const { valid, errors, warnings, toolCount } = await validateAgentLoop(loaded.loop)
    const problem = valid ? null : new AgentLoopValidationError(errors).message
    const { name } = loaded.loop
    return { kind: 'agent-loop', name, toolCount, problem, warnings: warnings.map(formatIssue) }
  }
  const { grader, workflowConfig, graderConfig } = loaded.entrypoint
  const parts = { grader, 'workflow config': workflowConfig, 'grader config': graderConfig }
  const missing = Object.entries(parts).flatMap(([name, part]) =>
    part === undefined ? [name] : [],
  )
  return { kind: 'workflow', missing, hasSchema: hasSchema(loaded.entrypoint) }
}

/** A package that is not installed here may be installed where the run is. */
function isMissingDependency(error: unknown): boolean {
  const { cause, code } = error as { cause?: unknown; code?: unknown }
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') {
    return /Cannot find (package|module) '(?![./])/.test(errorMessage(error))
  }
  return cause !== undefined && isMissingDependency(cause)
}
