import { errorMessage } from '../errors.ts'
import { beginningOf, errorTextBytes } from '../http/error-text.ts'

/** What a tool of a rollout threw. */
interface ToolError {
  readonly rolloutId: string
  readonly tool: string
  readonly error: unknown
}

/**
 * A line of the server's log about a tool that threw. Only its message, its stack and those of its causes are in it, because errors of
 * HTTP clients contain whole requests.
 *
 * @param apiKey - the bearer of the policy, which is left out
 */
export function toolErrorLine(
  { rolloutId, tool, error }: ToolError,
  apiKey: string | undefined,
): string {
  const text = (full: string): string =>
    // Before truncating, which could leave a piece of the key.
    beginningOf(apiKey ? full.replaceAll(apiKey, '***') : full, errorTextBytes)
  const line = {
    level: 40,
    time: Date.now(),
    rollout_id: rolloutId,
    tool: text(tool),
    msg: text(`The tool ${tool} threw: ${errorMessage(error)}`),
    thrown: text(stacksOf(error)),
  }
  return `${JSON.stringify(line)}\n`
}

function stacksOf(error: unknown, depth = 0): string {
  try {
    if (!(error instanceof Error) || typeof error.stack !== 'string') return errorMessage(error)
    if (error.cause === undefined || depth === 4) return error.stack
    return `${error.stack}\nCaused by: ${stacksOf(error.cause, depth + 1)}`
  } catch {
    // Getters of user code may throw.
    return errorMessage(error)
  }
}
