import { errorMessage, OsmosisError } from '@osmosis/core'
import { codeLine, UserCode } from '@osmosis/server/execution'
import type { FunctionTool } from '@osmosis/protocol/wire'

import type { RolloutAgentLoop, RolloutRequest } from './rollout-agent-loop.ts'
import { checkTools, formatIssue, type ValidationIssue } from './tools/function-tool.ts'

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

/** Checks an agent loop as the server does, and its tools with a synthetic rollout. */
export async function validateAgentLoop(loop: RolloutAgentLoop): Promise<ValidationReport> {
  const { tools, issues: toolIssues } = await loadTools(loop, probe)
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

/** Gets the tools of a rollout from a loop. Never rejects: a failing `getTools` is an issue. */
export async function loadTools(
  loop: RolloutAgentLoop,
  request: RolloutRequest,
): Promise<{ tools: readonly FunctionTool[]; issues: readonly ValidationIssue[] }> {
  const code = new UserCode({ rolloutId: request.rolloutId, part: 'agent loop' })
  try {
    return checkTools(await code.run(async () => loop.getTools(request)))
  } catch (error) {
    const what = error instanceof Error ? error.constructor.name : typeof error
    const place = codeLine(error)
    const where = place === undefined ? '' : ` at ${place}`
    const message = `getTools() threw ${what}${where}: ${errorMessage(error)}`
    return { tools: [], issues: [issue('GET_TOOLS_EXCEPTION', 'getTools', message)] }
  } finally {
    code.clear()
  }
}

/** Problems of a loop's own properties. */
export function shapeIssues(loop: RolloutAgentLoop): ValidationIssue[] {
  return [...nameIssues(loop), ...runIssues(loop)]
}

function* nameIssues(loop: RolloutAgentLoop): Generator<ValidationIssue> {
  const { name } = loop as { name?: unknown }
  const owner = `Agent loop class ${loop.constructor.name}`
  if (name === undefined || name === null) {
    yield issue('MISSING_NAME', 'name', `${owner} must define a 'name'`)
  } else if (typeof name !== 'string') {
    yield issue('INVALID_NAME_TYPE', 'name', `'name' must be a string, got ${typeof name}`)
  } else if (name.trim() === '') {
    yield issue('EMPTY_NAME', 'name', `${owner} has a 'name' that is empty or only whitespace`)
  }
}

function* runIssues(loop: RolloutAgentLoop): Generator<ValidationIssue> {
  const { run } = loop as { run?: unknown }
  if (run === undefined) {
    yield issue('MISSING_RUN_METHOD', 'run', `Agent loop must implement 'run' method`)
  } else if (typeof run !== 'function') {
    yield issue('RUN_NOT_CALLABLE', 'run', `'run' must be a method`)
  }
}

function issue(code: string, field: string, message: string): ValidationIssue {
  return { severity: 'error', code, field, message }
}
