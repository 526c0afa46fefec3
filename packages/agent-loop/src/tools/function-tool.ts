import type { FunctionTool } from '@osmosis/runtime/wire'

/** A JSON Schema as plain data. It reaches the trainer whole, whatever keywords it has. */
export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * A schema of any library that can say itself as JSON Schema, in the way of standardschema.dev
 * (zod 4.2 and later, for one).
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
    /** What the policy reads to decide when to call it. */
    readonly description?: string | null | undefined
    /** Default: no parameters. */
    readonly parameters?: JsonSchema | StandardJsonSchema | null | undefined
    /** Default: false. */
    readonly strict?: boolean | null | undefined
  }
}

/**
 * Declares a tool without writing OpenAI's format out. Its `parameters` are a JSON Schema, or a
 * schema such as `z.object({ … })`.
 */
export function functionTool(declaration: ToolInput['function']): ToolInput {
  return { type: 'function', function: declaration }
}

/**
 * The wire form of a tool: typed schemas become JSON Schema, and the keys that readers of the
 * protocol insist on are there.
 *
 * @throws what the schema's library throws when it has no JSON form
 */
export function toFunctionTool({ type, function: declared }: ToolInput): FunctionTool {
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
