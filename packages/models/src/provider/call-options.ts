import type { LanguageModelV4CallOptions } from '@ai-sdk/provider'
import type { ChatMessage } from '@osmosis/core/policy'
import { z } from 'zod'

import type { AnswerMemory } from './answer-memory.ts'
import { toPrompt, UnsupportedRequest } from './prompt.ts'

const maybe = <T extends z.ZodType>(schema: T): z.ZodOptional<z.ZodNullable<T>> =>
  schema.nullable().optional()

const functionTool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string(),
    description: maybe(z.string()),
    parameters: maybe(z.record(z.string(), z.unknown())),
    strict: maybe(z.boolean()),
  }),
})

const effort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh'])

/** What of a request can be said to a provider, and what means nothing to one. */
const requestSchema = z.strictObject({
  messages: z.array(z.custom<ChatMessage>((value) => typeof value === 'object' && value !== null)),
  max_tokens: maybe(z.number()),
  max_completion_tokens: maybe(z.number()),
  temperature: maybe(z.number()),
  top_p: maybe(z.number()),
  top_k: maybe(z.number()),
  presence_penalty: maybe(z.number()),
  frequency_penalty: maybe(z.number()),
  seed: maybe(z.number()),
  stop: maybe(z.union([z.string(), z.array(z.string())])),
  tools: maybe(z.array(functionTool)),
  tool_choice: maybe(z.unknown()),
  response_format: maybe(z.unknown()),
  reasoning_effort: maybe(effort),
  n: maybe(z.literal(1)),
  parallel_tool_calls: maybe(z.literal(true)),
})

/** What changes nothing about what is said. */
const silent = new Set([
  'model',
  'stream',
  'stream_options',
  'logprobs',
  'top_logprobs',
  'return_token_ids',
  'rollout_id',
  'metadata',
  'store',
  'user',
])

/**
 * A chat completions request as a call of the AI SDK. What would change the answer and cannot be said
 * there is refused rather than left out.
 *
 * @throws UnsupportedRequest
 */
export function toCallOptions(
  body: Readonly<Record<string, unknown>>,
  memory: AnswerMemory,
): LanguageModelV4CallOptions {
  const { data, error } = requestSchema.safeParse(
    Object.fromEntries(Object.entries(body).filter(([name]) => !silent.has(name))),
  )
  if (data === undefined) {
    const names = error.issues.flatMap((issue) =>
      issue.code === 'unrecognized_keys' ? issue.keys : [issue.path.join('.')],
    )
    throw new UnsupportedRequest(
      names.map((name) => `${name} (${shown(body[name.split('.')[0] ?? ''])})`).join(', '),
    )
  }
  const options: LanguageModelV4CallOptions = { prompt: toPrompt(data.messages, memory) }
  const settings = {
    maxOutputTokens: data.max_completion_tokens ?? data.max_tokens,
    temperature: data.temperature,
    topP: data.top_p,
    topK: data.top_k,
    presencePenalty: data.presence_penalty,
    frequencyPenalty: data.frequency_penalty,
    seed: data.seed,
    stopSequences: data.stop == null ? undefined : [data.stop].flat(),
    reasoning: data.reasoning_effort,
    responseFormat: responseFormat(data.response_format),
  }
  const given = Object.entries(settings).filter(([, value]) => value != null)
  return { ...options, ...Object.fromEntries(given), ...tooling(data.tools, data.tool_choice) }
}

function tooling(
  tools: readonly z.infer<typeof functionTool>[] | null | undefined,
  choice: unknown,
): Pick<LanguageModelV4CallOptions, 'tools' | 'toolChoice'> {
  if (!tools || tools.length === 0) return {}
  return {
    tools: tools.map(({ function: { name, description, parameters, strict } }) => ({
      type: 'function',
      name,
      inputSchema: parameters ?? { type: 'object', properties: {} },
      ...(description == null ? {} : { description }),
      ...(strict == null ? {} : { strict }),
    })),
    ...(choice == null ? {} : { toolChoice: toolChoice(choice) }),
  }
}

function toolChoice(choice: unknown): NonNullable<LanguageModelV4CallOptions['toolChoice']> {
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { type: choice }
  const { function: named } = choice as { function?: { name?: unknown } }
  if (typeof named?.name === 'string') return { type: 'tool', toolName: named.name }
  throw new UnsupportedRequest(`tool_choice (${shown(choice)})`)
}

const jsonSchemaFormat = z.object({
  type: z.literal('json_schema'),
  json_schema: z.object({
    name: z.string().optional(),
    description: z.string().optional(),
    schema: z.record(z.string(), z.unknown()).optional(),
  }),
})

function responseFormat(format: unknown): LanguageModelV4CallOptions['responseFormat'] {
  if (format == null) return undefined
  const { type } = format as { type?: unknown }
  if (type === 'text') return { type: 'text' }
  if (type === 'json_object') return { type: 'json' }
  const parsed = jsonSchemaFormat.safeParse(format)
  if (!parsed.success) throw new UnsupportedRequest(`response_format (${shown(format)})`)
  const { schema, name, description } = parsed.data.json_schema
  return {
    type: 'json',
    ...(schema === undefined ? {} : { schema }),
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
  }
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined'
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
