import { errorMessage } from '@osmosis/core'
import type { FunctionTool } from '@osmosis/protocol/wire'

import { isRecord } from '../chat/message-fields.ts'

/** A JSON Schema as plain data. The trainer receives all of its keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * A schema of a library that can convert it to JSON Schema, as standardschema.dev defines it
 * (for example zod 4.2 and later).
 */
export interface StandardJsonSchema {
  readonly '~standard': {
    readonly vendor: string
    readonly jsonSchema: {
      input(options: { readonly target: 'draft-07' }): Record<string, unknown>
    }
  }
}

/** A tool as an agent loop declares it: OpenAI's function format, or the same with a typed schema. */
export interface ToolInput {
  /** `function`. */
  readonly type: string
  readonly function: {
    readonly name: string
    /** The policy reads it to decide when to call the tool. */
    readonly description?: string | null | undefined
    /** Default: no parameters. */
    readonly parameters?: JsonSchema | StandardJsonSchema | null | undefined
    /** Default: false. */
    readonly strict?: boolean | null | undefined
  }
}

/**
 * Declares a tool in a shorter form. Its `parameters` are a JSON Schema, or a
 * schema such as `z.object({ … })`.
 */
export function functionTool(declaration: ToolInput['function']): ToolInput {
  return { type: 'function', function: declaration }
}

/**
 * The wire form of a tool: typed schemas are converted to JSON Schema, and keys that the protocol
 * requires are added.
 *
 * @throws what the schema's library throws when there is no JSON form
 */
function toFunctionTool({ type, function: declared }: ToolInput): FunctionTool {
  const { name, description, parameters, strict, ...others } = declared
  return {
    type,
    function: {
      ...others,
      name,
      description: description ?? '',
      parameters: { type: 'object', properties: {}, required: [], ...toJsonSchema(parameters) },
      strict: strict ?? false,
    },
  }
}

function toJsonSchema(parameters: ToolInput['function']['parameters']): JsonSchema {
  if (!isStandardSchema(parameters)) return parameters ?? {}
  const { $schema: _, ...schema } = parameters['~standard'].jsonSchema.input({ target: 'draft-07' })
  return schema
}

function isStandardSchema(value: unknown): value is StandardJsonSchema {
  return typeof value === 'object' && value !== null && '~standard' in value
}

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

/** The result of {@link checkTools}. */
export interface CheckedTools {
  /** In wire form; those with errors are omitted. */
  readonly tools: readonly FunctionTool[]
  readonly issues: readonly ValidationIssue[]
}

/** Checks tools. Validation and the server share it, so validation finds what the server would refuse. */
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
  const message = `Another tool has the name '${name}', so a call would be ambiguous`
  return problem('DUPLICATE_FUNCTION_NAME', `tools[${index}].function.name`, message)
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
