import path from 'node:path'

import {
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  type RolloutAgentLoop,
} from '@osmosis/agent-loop'
import { errorMessage, OsmosisError } from '@osmosis/core'

import { loadModule } from '../load-module.ts'

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
  const shown = path.relative('', file) || file
  const exports = await loadModule('agent loop', file)
  return {
    loop: name === undefined ? onlyLoop(exports, shown) : namedLoop(exports, name, shown),
    file: shown,
  }
}

function splitSpec(spec: string): { file: string; name: string | undefined } {
  // Windows paths have a colon of their own, behind the drive letter.
  const [, file = spec, name] = /^(.+):([\p{ID_Start}$_][\p{ID_Continue}$]*)$/u.exec(spec) ?? []
  return { file, name }
}

function namedLoop(
  exports: Readonly<Record<string, unknown>>,
  name: string,
  file: string,
): RolloutAgentLoop {
  if (name in exports) return toLoop(exports[name], name)
  throw invalid(
    `${file} has no export '${name}'. Its exports: ${Object.keys(exports).join(', ') || 'none'}.`,
  )
}

function onlyLoop(exports: Readonly<Record<string, unknown>>, file: string): RolloutAgentLoop {
  const loops = new Map<RolloutAgentLoop, string>()
  for (const [key, value] of Object.entries(exports)) {
    if (isRolloutAgentLoop(value)) loops.set(value, loops.get(value) ?? key)
  }
  const [loop, ...others] = loops.keys()
  if (loop !== undefined && others.length === 0) return loop
  const names = [...loops.values()].join(', ') || 'none'
  throw invalid(
    `${file} should export one agent loop, or name the one meant as ${file}:<export>. It exports: ${names}.`,
  )
}

function toLoop(value: unknown, name: string): RolloutAgentLoop {
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
