import {
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  type RolloutAgentLoop,
} from '@osmosis/agent-loop'
import { errorMessage, OsmosisError } from '@osmosis/core'

import { loadExports, namedExport, splitSpec, type LoadedExports } from './load-module.ts'

/** An agent loop and the file it comes from, as a person would say it. */
export interface LoadedAgentLoop {
  readonly loop: RolloutAgentLoop
  readonly file: string
}

/**
 * Loads an agent loop: `server.ts:agentLoop`, or `server.ts` when that exports only one. A class
 * is instantiated without arguments.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadAgentLoop(spec: string): Promise<LoadedAgentLoop> {
  const { file, name } = splitSpec(spec)
  const loaded = await loadExports('agent loop', file)
  return {
    loop: name === undefined ? onlyLoop(loaded) : toLoop(namedExport(loaded, name), name),
    file: loaded.file,
  }
}

/** The agent loops among exports, each with the first name it has. */
export function loopsOf(exports: LoadedExports['exports']): ReadonlyMap<RolloutAgentLoop, string> {
  const loops = new Map<RolloutAgentLoop, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isRolloutAgentLoop(value)) loops.set(value, loops.get(value) ?? key)
  }
  return loops
}

/** @throws OsmosisError with code `invalid_entrypoint` unless a module exports exactly one */
export function onlyLoop({ exports, file }: LoadedExports): RolloutAgentLoop {
  const loops = loopsOf(exports)
  const [loop, ...others] = loops.keys()
  if (loop !== undefined && others.length === 0) return loop
  const names = [...loops.values()].toSorted().join(', ') || 'none'
  throw invalid(
    `${file} should export one agent loop, or name the one meant as ${file}:<export>. It exports: ${names}.`,
  )
}

/**
 * The loop that an export is, or a loop of the class that it is.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export function toLoop(value: unknown, name: string): RolloutAgentLoop {
  if (isRolloutAgentLoop(value)) return value
  if (isRolloutAgentLoopClass(value)) return instantiated(value, name)
  const what = typeof value === 'function' ? 'a function or another class' : typeof value
  throw invalid(`'${name}' must be a RolloutAgentLoop or a subclass of it, got ${what}.`)
}

function instantiated(Loop: new () => RolloutAgentLoop, name: string): RolloutAgentLoop {
  try {
    return new Loop()
  } catch (error) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `Cannot instantiate '${name}': ${errorMessage(error)}`,
      { cause: error },
    )
  }
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_entrypoint', message)
}
