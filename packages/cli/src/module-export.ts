import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

import { loadModule, moduleFile } from './load-module.ts'
import { workingFolder } from './surroundings.ts'

/** What `server.ts:agentLoop` says. */
export interface ExportSpec {
  readonly file: string
  /** Undefined when no export is named. */
  readonly name: string | undefined
}

/** Takes a name like `server.ts:agentLoop` apart, at its last colon. */
export function splitSpec(spec: string): ExportSpec {
  // Windows paths have a colon of their own, behind the drive letter.
  const [, file = spec, name] = /^(.+):([\p{ID_Start}$_][\p{ID_Continue}$]*)$/u.exec(spec) ?? []
  return { file, name }
}

/** What a module of the user exports. */
export interface LoadedExports {
  readonly exports: Readonly<Record<string, unknown>>
  /** The file, as a person would say it. */
  readonly file: string
}

/**
 * Loads a module of the user.
 *
 * @param what - what the file is called in error messages
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadExports(what: string, file: string): Promise<LoadedExports> {
  const exports = await loadModule(what, file)
  const found = moduleFile(what, file)
  return { exports, file: path.relative(workingFolder(), found) || found }
}

/** @throws OsmosisError with code `invalid_entrypoint` when the module has no such export */
export function namedExport({ exports, file }: LoadedExports, name: string): unknown {
  if (name in exports) return exports[name]
  throw new OsmosisError(
    'invalid_entrypoint',
    `${file} has no export '${name}'. Its exports: ${Object.keys(exports).toSorted().join(', ') || 'none'}.`,
  )
}
