import { errorMessage, OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import type { FunctionTool } from '@osmosis/protocol/wire'
import { codeLine, UserCode } from '@osmosis/server/execution'

import type { RolloutAgentLoop, RolloutRequest } from './rollout-agent-loop.ts'
import { resolveSettings } from './rollout-settings.ts'
import { isStandardJsonSchema, toFunctionTool, type ToolInput } from './tools/function-tool.ts'

/** A problem of an agent loop (`error`), or a likely one (`warning`). */
export interface ValidationIssue {
  readonly severity: 'error' | 'warning'
  /** Stable, e.g. `GET_TOOLS_EXCEPTION`. */
  readonly code: string
  /** Where, e.g. `tools[0].function.name`. */
  readonly field: string
  readonly message: string
}

/** `[CODE] field: message`. */
export function formatIssue({ code, field, message }: ValidationIssue): string {
  return `[${code}] ${field === '' ? '' : `${field}: `}${message}`
}

/** The result of a validation. */
export interface ValidationReport {
  readonly valid: boolean
  /** Null when the loop has no usable name. */
  readonly name: string | null
  /** Number of usable tools. */
  readonly toolCount: number
  readonly errors: readonly ValidationIssue[]
  readonly warnings: readonly ValidationIssue[]
}

/** An agent loop that cannot serve rollouts. Code `invalid_entrypoint`. */
export class AgentLoopValidationError extends OsmosisError {
  override readonly name = 'AgentLoopValidationError'
  readonly errors: readonly ValidationIssue[]

  constructor(errors: readonly ValidationIssue[]) {
    const lines = errors.map((error) => `\n  - ${formatIssue(error)}`).join('')
    super(
      'invalid_entrypoint',
      `Agent loop validation failed with ${errors.length} error(s):${lines}`,
    )
    this.errors = errors
  }
}

/** The argument of `getTools` during a validation. */
const probe: RolloutRequest = {
  rolloutId: 'validation-test-rollout',
  serverUrl: 'http://localhost:8080',
  messages: [{ role: 'user', content: 'Hello' }],
  completionParams: { temperature: 1, max_tokens: 512 },
  toolServerUrl: null,
  maxTurns: 10,
  maxTokensTotal: 8192,
  metadata: { _validation: true },
  idempotencyKey: null,
}

/**
 * Checks an agent loop as the server does, and its tools with a synthetic rollout, for which it waits as long as the server.
 *
 * @throws OsmosisError with code `invalid_config` for settings of the environment that cannot be
 */
export async function validateAgentLoop(loop: RolloutAgentLoop): Promise<ValidationReport> {
  const { timeoutSeconds: seconds } = resolveSettings().client
  const { tools, issues: toolIssues } = await loadTools(loop, probe, { seconds })
  const issues = [...shapeIssues(loop), ...toolIssues]
  const errors = issues.filter(({ severity }) => severity === 'error')
  const name: unknown = loop.name
  return {
    valid: errors.length === 0,
    name: typeof name === 'string' && name.trim() !== '' ? name : null,
    toolCount: tools.length,
    errors,
    warnings: issues.filter(({ severity }) => severity === 'warning'),
  }
}

/** The tools of a loop in wire form, without those that have errors. */
interface LoadedTools {
  readonly tools: readonly FunctionTool[]
  readonly issues: readonly ValidationIssue[]
}

/** How long the tools of a rollout are waited for. */
interface ToolsPatience {
  readonly seconds: number
  /** Ends the wait when it aborts. */
  readonly ending?: AbortSignal
}

/** Gets the tools of a rollout from a loop. Never rejects: a failing `getTools` is an issue. */
export async function loadTools(
  loop: RolloutAgentLoop,
  request: RolloutRequest,
  patience: ToolsPatience,
): Promise<LoadedTools> {
  const code = new UserCode({ rolloutId: request.rolloutId, part: 'agent loop' })
  const release = limited(code, patience)
  try {
    return checkTools(await code.run(async () => loop.getTools(request)))
  } catch (error) {
    if (code.signal.aborted) {
      return { tools: [], issues: [problem('GET_TOOLS_TIMEOUT', 'getTools', errorMessage(error))] }
    }
    const what = error instanceof Error ? error.constructor.name : typeof error
    const place = codeLine(error)
    const where = place === undefined ? '' : ` at ${place}`
    const message = `getTools() threw ${what}${where}: ${errorMessage(error)}`
    return { tools: [], issues: [problem('GET_TOOLS_EXCEPTION', 'getTools', message)] }
  } finally {
    release()
    code.clear()
  }
}

/** Ends code that takes too long; returns what lifts the limit. */
function limited(code: UserCode, { seconds, ending }: ToolsPatience): () => void {
  const end = (why: string): void =>
    code.abort(new OsmosisError('server_shutdown', `getTools() did not return ${why}`))
  const onEnding = (): void => end('before the server shut down')
  const timer = setTimeout(
    () => end(`within the ${seconds} s that trainers wait (client.timeoutSeconds)`),
    seconds * 1000,
  )
  ending?.addEventListener('abort', onEnding, { once: true })
  return () => {
    clearTimeout(timer)
    ending?.removeEventListener('abort', onEnding)
  }
}

/** Problems of a loop's own properties. */
export function* shapeIssues(loop: RolloutAgentLoop): Generator<ValidationIssue> {
  const { name, run } = loop as { name?: unknown; run?: unknown }
  const owner = `Agent loop class ${loop.constructor.name}`
  if (name === undefined || name === null) {
    yield problem('MISSING_NAME', 'name', `${owner} must define a 'name'`)
  } else if (typeof name !== 'string') {
    yield problem('INVALID_NAME_TYPE', 'name', `'name' must be a string, got ${typeof name}`)
  } else if (name.trim() === '') {
    yield problem('EMPTY_NAME', 'name', `${owner} has a 'name' that is empty or only whitespace`)
  }
  if (run === undefined) {
    yield problem('MISSING_RUN_METHOD', 'run', `Agent loop must implement 'run' method`)
  } else if (typeof run !== 'function') {
    yield problem('RUN_NOT_CALLABLE', 'run', `'run' must be a method`)
  }
}

/** Validation and the server share it, so validation finds what the server would refuse. */
function checkTools(returned: unknown): LoadedTools {
  if (!Array.isArray(returned)) {
    const none = returned === undefined || returned === null
    const code = none ? 'GET_TOOLS_RETURNS_NONE' : 'GET_TOOLS_INVALID_TYPE'
    const message = `getTools() must return an array, got ${none ? String(returned) : typeof returned}`
    return { tools: [], issues: [problem(code, 'getTools', message)] }
  }
  const issues: ValidationIssue[] = []
  const names = new Set<string>()
  const tools: FunctionTool[] = []
  for (const [index, tool] of returned.entries()) {
    const field = `tools[${index}]`
    const found = [...problemsOf(tool, field)]
    issues.push(...found)
    if (found.some(({ severity }) => severity === 'error')) continue
    try {
      const wire = toFunctionTool(tool as ToolInput)
      JSON.stringify(wire)
      const { name } = wire.function
      if (names.has(name)) {
        const message = `Another tool has the name '${name}', so a call would be ambiguous`
        issues.push(problem('DUPLICATE_FUNCTION_NAME', `${field}.function.name`, message))
      } else tools.push(wire)
      names.add(name)
    } catch (error) {
      const message = `Tool cannot be written as JSON: ${errorMessage(error)}`
      issues.push(problem('TOOL_NOT_JSON', field, message))
    }
  }
  return { tools, issues }
}

function* problemsOf(tool: unknown, field: string): Generator<ValidationIssue> {
  if (!isJsonObject(tool)) {
    yield problem('INVALID_TOOL_TYPE', field, `Tool must be an object, got ${typeName(tool)}`)
    return
  }
  if (tool['type'] === undefined) {
    yield problem('MISSING_TOOL_TYPE', field, `Tool must have a 'type' field`)
  } else if (typeof tool['type'] !== 'string') {
    yield problem('INVALID_TOOL_TYPE', `${field}.type`, `Tool type must be a string`)
  } else if (tool['type'] !== 'function') {
    const message = `Tool type '${tool['type']}' may not be supported, expected 'function'`
    yield warning('UNKNOWN_TOOL_TYPE', `${field}.type`, message)
  }
  const declared = tool['function']
  if (declared === undefined) {
    yield problem('MISSING_FUNCTION', field, `Tool must have a 'function' field`)
  } else if (!isJsonObject(declared)) {
    yield problem('INVALID_FUNCTION_TYPE', `${field}.function`, `'function' must be an object`)
  } else {
    yield* functionProblems(declared, `${field}.function`)
  }
}

function* functionProblems(
  { name, description, parameters }: Readonly<Record<string, unknown>>,
  field: string,
): Generator<ValidationIssue> {
  if (name === undefined) {
    yield problem('MISSING_FUNCTION_NAME', `${field}.name`, `Function must have a 'name' field`)
  } else if (typeof name !== 'string' || name.trim() === '') {
    const message = 'Function name must be a non-empty string'
    yield problem('INVALID_FUNCTION_NAME', `${field}.name`, message)
  }
  if (description === undefined || description === null || description === '') {
    const message = `Function should have a 'description' for better LLM understanding`
    yield warning('MISSING_FUNCTION_DESCRIPTION', `${field}.description`, message)
  } else if (typeof description !== 'string') {
    const message = `'description' must be a string, got ${typeName(description)}`
    yield problem('INVALID_FUNCTION_DESCRIPTION', `${field}.description`, message)
  }
  if (parameters === undefined || parameters === null || isStandardJsonSchema(parameters)) return
  if (!isJsonObject(parameters) || '~standard' in parameters) {
    const got = isJsonObject(parameters)
      ? 'a schema that cannot be converted'
      : typeName(parameters)
    const message = `'parameters' must be a JSON Schema, or a schema whose library can convert it to one (zod can since 4.2), got ${got}`
    yield problem('INVALID_PARAMETERS_TYPE', `${field}.parameters`, message)
  } else {
    const { type = 'object' } = parameters
    if (type === 'object') return
    const message = `'parameters.type' should be 'object'`
    yield warning('PARAMETERS_TYPE_NOT_OBJECT', `${field}.parameters.type`, message)
  }
}

function problem(code: string, field: string, message: string): ValidationIssue {
  return { severity: 'error', code, field, message }
}

function warning(code: string, field: string, message: string): ValidationIssue {
  return { severity: 'warning', code, field, message }
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
