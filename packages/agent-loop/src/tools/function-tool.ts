import type { FunctionTool } from '@osmosis/protocol/wire'

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
  if (!isStandardJsonSchema(parameters)) return parameters ?? {}
  const { $schema: _, ...schema } = parameters['~standard'].jsonSchema.input({ target: 'draft-07' })
  return schema
}

/** True for a schema that its library can convert to JSON Schema. Schemas of some libraries are functions. */
export function isStandardJsonSchema(value: unknown): value is StandardJsonSchema {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  const standard = (value as Partial<StandardJsonSchema>)['~standard'] as
    | Partial<StandardJsonSchema['~standard']>
    | undefined
  return typeof standard?.jsonSchema?.input === 'function'
}
