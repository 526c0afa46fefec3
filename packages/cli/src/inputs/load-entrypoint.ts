import { isRolloutAgentLoopClass, type RolloutAgentLoop } from '@osmosis/agent-loop'
import { discoverEntrypoint, type Entrypoint } from '@osmosis/runtime'
import { OsmosisError } from '@osmosis/core'

import { loopsOf, onlyLoop, toLoop } from './load-agent-loop.ts'
import { loadExports, namedExport, splitSpec, type LoadedExports } from './load-module.ts'

/** What a module exports to be served, and the module as a person would say it. */
export type LoadedEntrypoint = { readonly file: string } & (
  | { readonly kind: 'workflow'; readonly entrypoint: Entrypoint }
  | { readonly kind: 'agent-loop'; readonly loop: RolloutAgentLoop }
)

/**
 * Loads what is to be served: a workflow by what its module exports, an agent loop by that or by
 * its name, as in `server.ts:agentLoop`.
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
    throw invalid(
      `${file} exports a workflow and an agent loop (${names}). Name the loop as ${file}:<export>, or move one of them to a file of its own.`,
    )
  }
  return { kind: 'agent-loop', loop: onlyLoop(loaded), file }
}

function namedLoop(loaded: LoadedExports, name: string): RolloutAgentLoop {
  const value = namedExport(loaded, name)
  if (workflowIn({ [name]: value }) === undefined) return toLoop(value, name)
  throw invalid(
    `'${name}' is a workflow, which is found by what its file exports: write ${loaded.file} alone.`,
  )
}

function onlyWorkflow({ exports, file }: LoadedExports): Entrypoint {
  try {
    return discoverEntrypoint(exports, file)
  } catch (error) {
    const [name] = Object.entries(exports).find(([, value]) => isRolloutAgentLoopClass(value)) ?? []
    if (name === undefined) throw error
    throw invalid(
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

function invalid(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_entrypoint', message, { cause })
}
