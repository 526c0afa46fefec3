import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { causes, errorCategory, errorMessage, isOsmosisError } from '@osmosis/core'

const ownFolder = fileURLToPath(new URL('..', import.meta.url))
/** Modules that call user code and are not called by it: no frame outside of them is that code's. */
const callers = /^execution.(?!sample-grading\.)/
/** The folder of this package and its siblings, in a checkout and in an installation. */
const packagesFolder = path.resolve(ownFolder, '../..') + path.sep

/** Frames are at the end of a stack; a message of megabytes may be in front of them. */
const stackTailLength = 16_384
/** No path is longer, but frames of modules in data URLs quote all of their code. */
const longestFrame = 2_000

interface Frame {
  readonly file: string
  readonly line: string
  readonly column: string
}

/**
 * Where in the user's code an error comes from, as ` (at src/agent.ts:12:7)`; empty when its stack
 * does not show that. Frames of Node.js, these packages and dependencies are skipped.
 */
export function codePlace(error: unknown): string {
  const frames = framesOf(error)
  const frame = frames.find(isOfUser) ?? frames.find((one) => !isOurs(one))
  return frame === undefined ? '' : ` (at ${shortened(frame.file)}:${frame.line}:${frame.column})`
}

/**
 * The line of the user's code that an error comes from, as `src/agent.ts:12`; undefined when its stack
 * has no such frame.
 */
export function codeLine(error: unknown): string | undefined {
  const frames = framesOf(error)
  const caller = frames.findIndex(
    ({ file }) => file.startsWith(ownFolder) && callers.test(file.slice(ownFolder.length)),
  )
  const frame = frames.slice(0, caller === -1 ? undefined : caller).find(isOfUser)
  return frame && `${shortened(frame.file)}:${frame.line}`
}

/**
 * The message of an error with its place in user code: `thrown by run() at main.ts:17: no such order`.
 * The SDK's own errors, such as those of a policy, a deadline or a missing reward, need no place.
 *
 * @param by - the function of the user that threw: `run()`
 */
export function thrownBy(by: string, error: unknown): string {
  const message = errorMessage(error)
  try {
    const chain = causes(error)
    const place = chain.map(codeLine).find((line) => line !== undefined)
    const sdkError = chain.find(isOsmosisError)
    const isWrongUse = place !== undefined && errorCategory(sdkError) === 'validation_error'
    if (sdkError !== undefined && !isWrongUse) return message
    return `thrown by ${by}${place === undefined ? '' : ` at ${place}`}: ${message}`
  } catch {
    // Getters and proxies are user code as well, and may throw.
    return `thrown by ${by}: ${message}`
  }
}

/** Frames with a file, the innermost first. */
function framesOf(error: unknown): Frame[] {
  return stackLines(error).flatMap((line) => parseFrame(line) ?? [])
}

function stackLines(error: unknown): string[] {
  try {
    const { stack, message } = error as { stack?: unknown; message?: unknown }
    if (typeof stack !== 'string') return []
    // A message may quote the stack of another program.
    const quoted = typeof message === 'string' ? stack.indexOf(message) : -1
    const frames = quoted === -1 ? stack : stack.slice(quoted + (message as string).length)
    return frames.slice(-stackTailLength).split('\n')
  } catch {
    // Null, undefined, or a getter that throws.
    return []
  }
}

function parseFrame(text: string): Frame | undefined {
  if (text.length > longestFrame) return undefined
  const [, of = '', line, column] = /^\s+at (?:async )?(.+):(\d+):(\d+)\)?$/.exec(text) ?? []
  // Code that was evaluated as text has no file.
  if (line === undefined || column === undefined) return undefined
  if (/(?:^|\()data:|<anonymous>$/.test(of)) return undefined
  const [, location] = /(?:^|\()((?:file:|\/|[A-Za-z]:[\\/]).*)$/.exec(of) ?? []
  const file = location === undefined ? '' : toPath(location)
  return path.isAbsolute(file) ? { file, line, column } : undefined
}

function isOfUser(frame: Frame): boolean {
  return !frame.file.includes(`${path.sep}node_modules${path.sep}`) && !isOurs(frame)
}

/** Whether it is of these packages. */
function isOurs({ file }: Frame): boolean {
  const [, folder] = path.relative(packagesFolder, file).split(path.sep)
  return file.startsWith(packagesFolder) && (folder === 'src' || folder === 'dist')
}

function toPath(location: string): string {
  if (!location.startsWith('file:')) return location
  try {
    // Without the query that loaders append.
    return fileURLToPath(location.replace(/[?#].*$/, ''))
  } catch {
    return location
  }
}

function shortened(file: string): string {
  const relative = path.relative(process.cwd(), file)
  return relative.startsWith('..') || path.isAbsolute(relative) ? file : relative
}
