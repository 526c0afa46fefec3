import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ownFolder = fileURLToPath(new URL('..', import.meta.url))

/** Frames are at the end of a stack; a message of megabytes may be in front of them. */
const stackTailLength = 16_384

/**
 * Where in the user's code an error comes from, as ` (at src/agent.ts:12:7)`; empty when its stack
 * does not say. Frames of Node.js, of this package and of what is installed are passed over.
 */
export function codePlace(error: unknown): string {
  const places = stackLines(error).flatMap((line) => parseFrame(line) ?? [])
  const own = places.find(({ file }) => !file.includes(`${path.sep}node_modules${path.sep}`))
  const place = own ?? places[0]
  return place === undefined ? '' : ` (at ${shortened(place.file)}:${place.position})`
}

function stackLines(error: unknown): string[] {
  try {
    const { stack } = error as { stack?: unknown }
    return typeof stack === 'string' ? stack.slice(-stackTailLength).split('\n') : []
  } catch {
    // Null, undefined, or a getter that throws.
    return []
  }
}

function parseFrame(line: string): { file: string; position: string } | undefined {
  const [, location, position] = /^\s+at (?:.*\()?(.+?):(\d+:\d+)\)?$/.exec(line) ?? []
  if (location === undefined || position === undefined) return undefined
  const file = toPath(location)
  return path.isAbsolute(file) && !file.startsWith(ownFolder) ? { file, position } : undefined
}

function toPath(location: string): string {
  if (!location.startsWith('file:')) return location
  try {
    // Without what loaders put behind the path.
    return fileURLToPath(location.replace(/[?#].*$/, ''))
  } catch {
    return location
  }
}

function shortened(file: string): string {
  const relative = path.relative(process.cwd(), file)
  return relative.startsWith('..') || path.isAbsolute(relative) ? file : relative
}
