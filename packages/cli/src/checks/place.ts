import { readFileSync } from 'node:fs'
import path from 'node:path'

import { codeLine } from '@osmosis/server/execution'

import { fromWorkingFolder, resolvePath } from '../command/command-context.ts'
import type { FindingDetails } from './finding.ts'

/** Where a finding has its cause; empty where that is not known. */
export type Place = Pick<FindingDetails, 'file' | 'line'>

/**
 * A place in user code as errors name it.
 *
 * @param place - `main.ts:12`
 * @param folder - working folder of the process that named it
 */
export function placeIn(folder: string, place: string | undefined): Place {
  const [, file, line] = /^(.+?):(\d+)$/.exec(place ?? '') ?? []
  if (file === undefined) return {}
  return { file: fromWorkingFolder(path.resolve(folder, file)), line: Number(line) }
}

/** The place in user code that the message of a failed rollout names, as in `thrown by run() at main.ts:12: …`. */
export function placeOfFailure(folder: string, message: string): Place {
  const [, thrown] = /(?:^|\s)thrown by [^:\n]+? at (\S.*?:\d+): /.exec(message) ?? []
  const [, stray] = / \(at (\S[^\n]*?:\d+):\d+\)/.exec(message) ?? []
  return placeIn(folder, thrown ?? stray)
}

/** The first line of user code that a text names, be it in a stack or as compilers do: `/home/me/main.ts:3:5: ERROR: …`. */
export function placeInStack(text: string): Place {
  const [, compiled] = /^(\/[^\n]*?:\d+):\d+: ERROR/m.exec(text) ?? []
  const place = compiled ?? codeLine({ stack: text })
  // It is relative to the folder of this process.
  return place === undefined ? {} : placeIn('', path.resolve(place))
}

/**
 * Where an entrypoint failed to load. Node.js names the module in the message where it ran none of its lines: an import finds nothing
 * there, or it ended the process.
 *
 * @param folder - working folder of the process that loaded it
 */
export function placeOfLoading(folder: string, message: string): Place {
  const place = placeInStack(message)
  if (place.file !== undefined) return place
  const [, heading] = /^(?:file:\/\/)?(\/[^\n]*:\d+)$/m.exec(message) ?? []
  const [, importer] = /(?: imported from |\nRequire stack:\n- )(\/[^\n]+)/.exec(message) ?? []
  if (heading === undefined && importer !== undefined) return { file: fromWorkingFolder(importer) }
  return heading === undefined ? placeOfFailure(folder, message) : placeIn(folder, heading)
}

/**
 * Where the first problem of a file lies, by the message that lists its problems, as `experiment.rollout: missing` of a config or
 * `line 3: …` of a dataset. Only the file where no line can be known.
 */
export function placeOfProblem(file: string, problem: string): Place {
  const [, line] = /^line (\d+)\b/.exec(problem) ?? []
  if (line !== undefined) return { file: fromWorkingFolder(file), line: Number(line) }
  const [, key] = /^([\w-]+(?:\.[\w-]+)*):/.exec(problem) ?? []
  const isConfig = key !== undefined && file.endsWith('.toml')
  return {
    file: fromWorkingFolder(file),
    line: isConfig ? lineOfKey(readFileSync(file, 'utf8'), key) : undefined,
  }
}

/** The place of the first problem that an error about a config or a dataset lists below the name of the file. */
export function placeInMessage(message: string): Place {
  const [, named, problem = ''] =
    /^Invalid (?:dataset|\w+ config) ([^\n]+):\n- ([^\n]*)/.exec(message) ?? []
  return named === undefined ? {} : placeOfProblem(resolvePath(named), problem)
}

/** The line of a key in a TOML text, as `section.key`: that of its section where the key is missing. */
function lineOfKey(text: string, name: string): number | undefined {
  const lines = text.split('\n')
  const [section = '', ...rest] = name.split('.')
  const [key] = rest
  const header = lines.findIndex((line) => nameIn(line, /^\s*\[+\s*([^\]]+?)\s*\]/) === section)
  if (header === -1) return undefined
  const end = lines.findIndex((line, at) => at > header && /^\s*\[/.test(line))
  const own = lines.slice(header, end === -1 ? undefined : end)
  const at = own.findIndex((line) => nameIn(line, /^\s*["']?([\w.-]+)["']?\s*=/) === key)
  return header + 1 + Math.max(at, 0)
}

function nameIn(line: string, pattern: RegExp): string | undefined {
  return pattern.exec(line)?.[1]
}
