import { isJsonObject } from '@osmosis/core/http'
import { stepRewardsDropped } from '@osmosis/server/protocols'

import { placeInStack, type Place } from '../place.ts'

/** What the log of a rollout server says beyond the outcomes of its rollouts. */
export interface HeardLog {
  /** The code of the error with which each rollout failed, by rollout id; only errors of the SDK have one. */
  readonly codes: ReadonlyMap<string, string>
  /** What the server warned of each rollout, by rollout id. */
  readonly warnings: ReadonlyMap<string, string>
  /** The errors that tools threw, by the names of the tools; the first of each. */
  readonly toolErrors: ReadonlyMap<string, ThrownByTool>
  /** Whether a grader set rewards of single steps. */
  readonly hasStepRewards: boolean
}

interface ThrownByTool {
  readonly message: string
  readonly place: Place
}

/** Reads the lines of a server's log, among which are those that user code prints. */
export function hearLog(): {
  readonly onLine: (line: string) => void
  readonly heard: () => HeardLog
} {
  const codes = new Map<string, string>()
  const warnings = new Map<string, string>()
  const toolErrors = new Map<string, ThrownByTool>()
  let hasStepRewards = false
  const onLine = (text: string): void => {
    hasStepRewards ||= text.includes(stepRewardsDropped)
    const line = parsed(text)
    if (line === undefined) return
    const { rollout_id: id, error, tool, thrown, warning } = line
    if (typeof tool === 'string' && typeof thrown === 'string' && !toolErrors.has(tool)) {
      toolErrors.set(tool, { message: firstLine(thrown), place: placeInStack(thrown) })
    }
    const { code } = (isJsonObject(error) ? error : {}) as { code?: unknown }
    if (typeof id !== 'string') return
    if (typeof code === 'string') codes.set(id, code)
    if (typeof warning === 'string') warnings.set(id, warning)
  }
  return { onLine, heard: () => ({ codes, warnings, toolErrors, hasStepRewards }) }
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function firstLine(stack: string): string {
  return stack.split('\n', 1)[0] ?? stack
}
