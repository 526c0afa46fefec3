import { OsmosisError } from '@osmosis/core'

import type { AdkConfig } from './adk-types.ts'

/**
 * The settings of a model call as fields of a chat completions request.
 *
 * @throws OsmosisError with code `invalid_request` for what the policy cannot do
 */
export function requestFields(config: AdkConfig): Record<string, unknown> {
  if ((config.candidateCount ?? 1) > 1)
    throw unsupported('candidateCount', 'one answer is recorded')
  const modalities = config.responseModalities ?? []
  if (modalities.some((modality) => modality.toUpperCase() !== 'TEXT')) {
    throw unsupported('responseModalities', 'the policy writes text')
  }
  return {
    temperature: config.temperature,
    top_p: config.topP,
    top_k: config.topK,
    max_tokens: config.maxOutputTokens,
    stop: config.stopSequences,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    seed: config.seed,
    logprobs: config.responseLogprobs,
    top_logprobs: config.logprobs,
    response_format: responseFormat(config),
    ...toolFields(config),
  }
}

function responseFormat(config: AdkConfig): unknown {
  const { responseSchema, responseJsonSchema, responseMimeType } = config
  const given: unknown = responseJsonSchema ?? responseSchema
  if (given !== undefined) {
    const schema = responseJsonSchema === undefined ? toJsonSchema(given) : given
    return { type: 'json_schema', json_schema: { name: 'response', schema } }
  }
  return responseMimeType === 'application/json' ? { type: 'json_object' } : undefined
}

function toolFields({ tools = [], toolConfig }: AdkConfig): Record<string, unknown> {
  const functions = tools.flatMap((tool) => {
    const { functionDeclarations, ...others } = tool as {
      functionDeclarations?: readonly Declaration[]
    }
    const [hosted] = Object.entries(others).flatMap(([name, value]) => (value ? [name] : []))
    if (hosted !== undefined) throw unsupported(`the tool ${hosted}`, 'Google would execute it')
    return functionDeclarations ?? []
  })
  if (functions.length === 0) return {}
  const { mode, allowedFunctionNames: names = [] } = toolConfig?.functionCallingConfig ?? {}
  const allowed =
    names.length > 0 ? functions.filter(({ name = '' }) => names.includes(name)) : functions
  return { tools: allowed.map(toWireTool), tool_choice: toolChoice(mode, allowed) }
}

interface Declaration {
  readonly name?: string
  readonly description?: string
  readonly parameters?: unknown
  readonly parametersJsonSchema?: unknown
}

function toWireTool({ name, description, parameters, parametersJsonSchema }: Declaration): object {
  const schema = parametersJsonSchema ?? toJsonSchema(parameters ?? { type: 'OBJECT' })
  return { type: 'function', function: { name, description, parameters: schema } }
}

function toolChoice(mode: string | undefined, allowed: readonly Declaration[]): unknown {
  if (mode === 'NONE') return 'none'
  if (mode !== 'ANY') return undefined
  const [only, ...others] = allowed
  if (only === undefined || others.length > 0) return 'required'
  return { type: 'function', function: { name: only.name } }
}

/** Numbers that Gemini's schemas have as text. */
const counts = new Set([
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'minProperties',
  'maxProperties',
])

/** A schema of Gemini as a JSON schema: types in lower case, `null` as one of them. */
function toJsonSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toJsonSchema)
  if (typeof schema !== 'object' || schema === null) return schema
  const { nullable, propertyOrdering: _, ...fields } = schema as Record<string, unknown>
  const converted = Object.entries(fields).map(([key, value]): [string, unknown] => {
    if (key === 'type' && typeof value === 'string') return [key, value.toLowerCase()]
    if (counts.has(key)) return [key, Number(value)]
    if (key === 'properties') return [key, mapValues(value as Record<string, unknown>)]
    return [key, key === 'items' || key === 'anyOf' ? toJsonSchema(value) : value]
  })
  const json = Object.fromEntries(converted)
  if (nullable !== true || typeof json['type'] !== 'string') return json
  return { ...json, type: [json['type'], 'null'] }
}

function mapValues(properties: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [name, toJsonSchema(value)]),
  )
}

function unsupported(what: string, why: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `OsmosisLlm does not support ${what}: ${why}. Leave it out.`,
  )
}
