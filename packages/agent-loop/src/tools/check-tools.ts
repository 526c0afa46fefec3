import { errorMessage } from '@osmosis/core'
import type { FunctionTool } from '@osmosis/runtime/wire'

import { toFunctionTool, type ToolInput } from './function-tool.ts'

/** Something about an agent loop that is wrong (`error`) or looks so (`warning`). */
export interface ValidationIssue {
  readonly severity: 'error' | 'warning'
  /** Stable word, e.g. `GET_TOOLS_EXCEPTION`. */
  readonly code: string
  /** Where, e.g. `tools[0].function.name`. */
  readonly field: string
  readonly message: string
}

/** `[CODE] field: message`. */
export function formatIssue({ code, field, message }: ValidationIssue): string {
  return `[${code}] ${field === '' ? '' : `${field}: `}${message}`
}

/** What became of the tools that `getTools` returned. */
export interface CheckedTools {
  /** In wire form; those with errors are left out. */
  readonly tools: readonly FunctionTool[]
  readonly issues: readonly ValidationIssue[]
}

/** The one check of tools: what it finds at validation is what the server would refuse. */
export function checkTools(returned: unknown): CheckedTools {
  if (!Array.isArray(returned)) {
    const none = returned === undefined || returned === null
    return {
      tools: [],
      issues: [
        {
          severity: 'error',
          code: none ? 'GET_TOOLS_RETURNS_NONE' : 'GET_TOOLS_INVALID_TYPE',
          field: 'getTools',
          message: `getTools() must return an array, got ${none ? String(returned) : typeof returned}`,
        },
      ],
    }
  }
  const issues: ValidationIssue[] = []
  const names = new Set<string>()
  const tools: FunctionTool[] = []
  for (const [index, tool] of returned.entries()) {
    const found = [...problemsOf(tool, `tools[${index}]`)]
    issues.push(...found)
    if (found.some(({ severity }) => severity === 'error')) continue
    try {
      const wire = toFunctionTool(tool as ToolInput)
      JSON.stringify(wire)
      if (names.has(wire.function.name)) issues.push(duplicate(wire.function.name, index))
      else tools.push(wire)
      names.add(wire.function.name)
    } catch (error) {
      issues.push({
        severity: 'error',
        code: 'TOOL_NOT_JSON',
        field: `tools[${index}]`,
        message: `Tool cannot be written as JSON: ${errorMessage(error)}`,
      })
    }
  }
  return { tools, issues }
}

function* problemsOf(tool: unknown, field: string): Generator<ValidationIssue> {
  if (!isRecord(tool)) {
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
  } else if (!isRecord(declared)) {
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
  if (parameters === undefined || parameters === null) return
  if (!isRecord(parameters) && typeof parameters !== 'function') {
    yield problem(
      'INVALID_PARAMETERS_TYPE',
      `${field}.parameters`,
      `'parameters' must be an object`,
    )
  } else if (isRecord(parameters) && !('~standard' in parameters)) {
    const { type = 'object' } = parameters
    if (type === 'object') return
    const message = `'parameters.type' should be 'object'`
    yield warning('PARAMETERS_TYPE_NOT_OBJECT', `${field}.parameters.type`, message)
  }
}

function duplicate(name: string, index: number): ValidationIssue {
  const message = `Another tool is called '${name}' as well; a call could mean either`
  return problem('DUPLICATE_FUNCTION_NAME', `tools[${index}].function.name`, message)
}

function problem(code: string, field: string, message: string): ValidationIssue {
  return { severity: 'error', code, field, message }
}

function warning(code: string, field: string, message: string): ValidationIssue {
  return { severity: 'warning', code, field, message }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
