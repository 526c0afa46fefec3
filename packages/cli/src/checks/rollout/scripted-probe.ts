import { scriptedPolicy, type PolicyModel } from '@osmosis/controller'
import { isJsonObject } from '@osmosis/core/http'

/** A tool as a request offers it. */
export interface ProbedTool {
  readonly function?: { readonly name?: string; readonly parameters?: object }
}

/** Calls the first tool, and then answers, both by their schemas. */
const bySchemas = scriptedPolicy(({ tools, turn, body }) => {
  const { tool_choice: choice, response_format: format } = body
  const { name: chosen } = (choice as ProbedTool | null | undefined)?.function ?? {}
  const offered = tools as readonly ProbedTool[]
  // Behind its other tools an agent may offer one for its structured answer.
  const called = turn === 0 || choice !== 'required' ? offered[0] : offered.at(-1)
  const tool = offered.find((one) => one.function?.name === chosen) ?? called
  const { name, parameters = {} } = tool?.function ?? {}
  const mustCall = turn === 0 || chosen !== undefined || choice === 'required'
  if (name !== undefined && mustCall) {
    return { toolCalls: [{ name, arguments: JSON.stringify(schemaExample(parameters)) }] }
  }
  const { type, json_schema: asked } = (format ?? {}) as {
    type?: string
    json_schema?: { schema?: object }
  }
  if (type === 'json_schema') return JSON.stringify(schemaExample(asked?.schema ?? {}))
  return type === 'json_object' ? '{}' : 'A scripted answer.'
})

/** The policy of `osmosis validate` itself; a workspace may have one that is called `scripted`. */
export const probe: PolicyModel = { ...bySchemas, name: "validate's own policy" }

type Schema = Readonly<Record<string, unknown>>

/** Deeper values of a schema that names itself are null. */
const deepest = 8

/**
 * A value that fits a JSON schema, for a policy that has no model: the smallest one of the usual keywords.
 *
 * @param root - where its `$ref`s lead
 */
export function schemaExample(schema: unknown, root: unknown = schema, depth = 0): unknown {
  if (!isJsonObject(schema) || depth > deepest) return null
  const next = (inner: unknown): unknown => schemaExample(inner, root, depth + 1)
  if ('const' in schema) return schema['const']
  if ('default' in schema) return schema['default']
  for (const list of ['enum', 'examples']) {
    if (Array.isArray(schema[list]) && schema[list].length > 0) return schema[list][0] as unknown
  }
  if (typeof schema['$ref'] === 'string') return next(referenced(schema['$ref'], root))
  for (const list of ['anyOf', 'oneOf']) {
    if (Array.isArray(schema[list])) return next(schema[list][0])
  }
  if (Array.isArray(schema['allOf'])) {
    return next(
      Object.assign({}, ...(schema['allOf'] as object[]), { ...schema, allOf: undefined }),
    )
  }
  return exampleOfType(schema, next)
}

function exampleOfType(schema: Schema, next: (inner: unknown) => unknown): unknown {
  const types = [schema['type']].flat().filter((one) => typeof one === 'string')
  switch (types.find((one) => one !== 'null') ?? types[0] ?? 'object') {
    case 'string':
      return textOf(schema)
    case 'integer':
    case 'number':
      return numberOf(schema)
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: Number(schema['minItems'] ?? 1) }, () => next(schema['items']))
    case 'null':
      return null
    default: {
      const properties = isJsonObject(schema['properties']) ? schema['properties'] : {}
      const entries = Object.entries(properties).map(([key, inner]) => [key, next(inner)])
      return Object.fromEntries(entries) as object
    }
  }
}

const formats: Readonly<Record<string, string>> = {
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
  email: 'someone@example.com',
  time: '00:00:00Z',
  uri: 'https://example.com',
  url: 'https://example.com',
  uuid: '00000000-0000-4000-8000-000000000000',
}

function textOf({ format, minLength = 0, maxLength = Infinity }: Schema): string {
  const known = typeof format === 'string' ? formats[format] : undefined
  return known ?? 'text'.padEnd(Number(minLength), '.').slice(0, Number(maxLength))
}

function numberOf({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): number {
  const least = Math.ceil(Number(minimum ?? Number(exclusiveMinimum ?? 0) + 1))
  const most = Math.floor(Number(maximum ?? Number(exclusiveMaximum ?? Infinity) - 1))
  return Math.min(least, most)
}

function referenced(reference: string, root: unknown): unknown {
  const keys = reference.split('/').slice(1)
  return keys.reduce<unknown>(
    (value, key) =>
      isJsonObject(value) ? value[key.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined,
    root,
  )
}
