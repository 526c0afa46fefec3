import type { StructuredOutputMethodOptions } from '@langchain/core/language_models/base'
import {
  createContentParser,
  createFunctionCallingParser,
} from '@langchain/core/language_models/structured_output'
import type { Runnable } from '@langchain/core/runnables'
import { toJsonSchema } from '@langchain/core/utils/json_schema'
import type { InteropZodType } from '@langchain/core/utils/types'
import { OsmosisError } from '@osmosis/core'

/** A schema of Zod or of another library, or a JSON schema. */
export type OutputSchema = InteropZodType<Record<string, unknown>> | Record<string, unknown>

/** How a structured output is requested, and what reads it. */
export interface StructuredOutput {
  /** Options of the call. */
  readonly options: Readonly<Record<string, unknown>>
  readonly parser: Runnable<never, Record<string, unknown>>
}

/** @throws OsmosisError with code `invalid_request` for an unknown method */
export function structuredOutput(
  schema: OutputSchema,
  { method = 'jsonSchema', name: givenName, strict }: StructuredOutputMethodOptions<boolean>,
): StructuredOutput {
  const parameters = toJsonSchema(schema as Parameters<typeof toJsonSchema>[0])
  const { title, description } = parameters as { title?: unknown; description?: unknown }
  const name = givenName ?? (typeof title === 'string' ? title : 'extract')
  switch (method) {
    case 'jsonSchema': {
      const json_schema = { name, description, schema: parameters, strict }
      return {
        options: { response_format: { type: 'json_schema', json_schema } },
        parser: createContentParser(schema),
      }
    }
    case 'jsonMode':
      return {
        options: { response_format: { type: 'json_object' } },
        parser: createContentParser(schema),
      }
    case 'functionCalling': {
      const called = { name, description, parameters }
      return {
        options: { tools: [{ type: 'function', function: called }], tool_choice: name, strict },
        parser: createFunctionCallingParser(schema, name),
      }
    }
    default:
      throw new OsmosisError(
        'invalid_request',
        `The method of withStructuredOutput must be jsonSchema, jsonMode or functionCalling, got ${JSON.stringify(method)}.`,
      )
  }
}
