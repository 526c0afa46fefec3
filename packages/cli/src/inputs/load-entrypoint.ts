import {
  AgentLoopValidationError,
  formatIssue,
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  validateAgentLoop,
  type RolloutAgentLoop,
  type ValidationReport,
} from '@osmosis/agent-loop'
import { errorMessage } from '@osmosis/core'
import { discoverEntrypoint, type Entrypoint } from '@osmosis/server/execution'

import { printMessage } from '../command/terminal-text.ts'
import { invalid, invalidEntrypoint } from '../command/wrong-use.ts'
import { loadExports, namedExport, splitSpec, type LoadedExports } from './load-module.ts'

/** What a module exports to be served, and its path for messages. */
export type LoadedEntrypoint = { readonly file: string } & (
  | { readonly kind: 'workflow'; readonly entrypoint: Entrypoint }
  | { readonly kind: 'agent-loop'; readonly loop: RolloutAgentLoop }
)

/** A workflow with what its module exports beside it, and the path of that file, for messages. */
export type LoadedWorkflow = Extract<LoadedEntrypoint, { readonly kind: 'workflow' }>

/** An agent loop and the path of its file, for messages. */
export type LoadedAgentLoop = Extract<LoadedEntrypoint, { readonly kind: 'agent-loop' }>

/**
 * Loads an entrypoint: the workflow that a module exports, or an agent loop, which may be named as in
 * `server.ts:agentLoop`.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadEntrypoint(spec: string): Promise<LoadedEntrypoint> {
  const { file: given, name } = splitSpec(spec)
  const loaded = await loadExports('entrypoint', given)
  const { exports, file } = loaded
  if (name !== undefined) return { kind: 'agent-loop', loop: namedLoop(loaded, name), file }
  const loops = loopsOf(exports)
  if (loops.size === 0) return { kind: 'workflow', entrypoint: onlyWorkflow(loaded), file }
  if (workflowIn(exports) !== undefined) {
    const names = [...loops.values()].join(', ')
    throw invalidEntrypoint(
      `${file} exports a workflow and an agent loop (${names}). Name the loop as ${file}:<export>, or move one of them to a file of its own.`,
    )
  }
  return { kind: 'agent-loop', loop: onlyLoop(loaded), file }
}

/**
 * Takes an entrypoint for a part that runs workflows only.
 *
 * @param what - the name of this part
 * @throws OsmosisError with code `invalid_config` for an agent loop
 */
export function requireWorkflow(loaded: LoadedEntrypoint, what: string): LoadedWorkflow {
  if (loaded.kind === 'workflow') return loaded
  throw invalid(
    `${what} runs workflows, and ${loaded.file} exports an agent loop, which its server has to run: start several servers of it instead, each on its own port.`,
  )
}

function namedLoop(loaded: LoadedExports, name: string): RolloutAgentLoop {
  const value = namedExport(loaded, name)
  if (workflowIn({ [name]: value }) === undefined) return toLoop(value, name)
  throw invalidEntrypoint(
    `'${name}' is a workflow, which needs no name: pass ${loaded.file} without :${name}.`,
  )
}

function onlyWorkflow({ exports, file }: LoadedExports): Entrypoint {
  try {
    return discoverEntrypoint(exports, file)
  } catch (error) {
    const [name] = Object.entries(exports).find(([, value]) => isRolloutAgentLoopClass(value)) ?? []
    if (name === undefined) throw error
    throw invalidEntrypoint(
      `${file} exports the class of an agent loop. Name it as ${file}:${name}, or export one instance of it.`,
      error,
    )
  }
}

function workflowIn(exports: Readonly<Record<string, unknown>>): Entrypoint | undefined {
  try {
    return discoverEntrypoint(exports)
  } catch {
    return undefined
  }
}

/** The exported agent loops, each with its first name. */
function loopsOf(exports: LoadedExports['exports']): ReadonlyMap<RolloutAgentLoop, string> {
  const loops = new Map<RolloutAgentLoop, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isRolloutAgentLoop(value)) loops.set(value, loops.get(value) ?? key)
  }
  return loops
}

/** @throws OsmosisError with code `invalid_entrypoint` unless a module exports exactly one */
function onlyLoop({ exports, file }: LoadedExports): RolloutAgentLoop {
  const loops = loopsOf(exports)
  const [loop, ...others] = loops.keys()
  if (loop !== undefined && others.length === 0) return loop
  const names = [...loops.values()].toSorted().join(', ') || 'none'
  throw invalidEntrypoint(
    `${file} should export one agent loop, or name the one meant as ${file}:<export>. It exports: ${names}.`,
  )
}

/**
 * The loop that is exported, or an instance of the class that is exported.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
function toLoop(value: unknown, name: string): RolloutAgentLoop {
  if (isRolloutAgentLoop(value)) return value
  if (!isRolloutAgentLoopClass(value)) {
    const what = typeof value === 'function' ? 'a function or another class' : typeof value
    throw invalidEntrypoint(
      `'${name}' must be a RolloutAgentLoop or a subclass of it, got ${what}.`,
    )
  }
  try {
    return new value()
  } catch (error) {
    throw invalidEntrypoint(`Cannot instantiate '${name}': ${errorMessage(error)}`, error)
  }
}

/**
 * Checks a loop before it is used, and prints warnings to stderr.
 *
 * @throws AgentLoopValidationError when it cannot serve rollouts
 */
export async function checkAgentLoop(loop: RolloutAgentLoop): Promise<ValidationReport> {
  const report = await validateAgentLoop(loop)
  if (!report.valid) throw new AgentLoopValidationError(report.errors)
  for (const warning of report.warnings) {
    printMessage(`warning: ${formatIssue(warning)}`)
  }
  return report
}
