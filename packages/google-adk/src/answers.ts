import { BaseTool, type LlmRequest, type LlmResponse } from '@google/adk'
import {
  argumentsObject,
  type ChatCompletion,
  type ChatCompletionChunk,
  nameForAgent,
} from '@osmosis/core/policy'

import type { AdkContent, AdkPart } from './adk-types.ts'

const finishReasons: Readonly<Record<string, string>> = {
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
}

/**
 * An answer of the policy as a turn of Gemini. Malformed arguments become an empty object, under a name that no tool of
 * the agent has.
 */
export function toContent({ choices }: ChatCompletion): AdkContent {
  const {
    content,
    refusal,
    reasoning_content,
    reasoning,
    tool_calls = [],
  } = choices[0]?.message ?? {}
  const thinking = reasoning_content || reasoning
  const text = `${content ?? ''}${refusal ?? ''}`
  const parts: AdkPart[] = [
    ...(thinking ? [{ text: thinking, thought: true }] : []),
    ...(text === '' && tool_calls.length > 0 ? [] : [{ text }]),
    ...tool_calls.map(({ id, function: { name, arguments: written } }) => ({
      functionCall: { id, name: nameForAgent(name, written), args: argumentsObject(written) ?? {} },
    })),
  ]
  return { role: 'model', parts }
}

/** An answer of the policy as a whole. */
export function toResponse(completion: ChatCompletion, content: AdkContent): LlmResponse {
  const { choices, usage, model } = completion
  const reason = finishReasons[choices[0]?.finish_reason ?? ''] ?? 'STOP'
  return {
    content,
    // Its enum belongs to a package that users need not have.
    finishReason: reason as never,
    modelVersion: model,
    ...(usage
      ? {
          usageMetadata: {
            promptTokenCount: usage.prompt_tokens,
            candidatesTokenCount: usage.completion_tokens,
            totalTokenCount: usage.total_tokens,
          },
        }
      : {}),
  }
}

/** A piece of text or of thinking; undefined for a chunk without either. Calls come with the whole answer. */
export function toPartial(chunk: ChatCompletionChunk): LlmResponse | undefined {
  const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
  const thinking = delta?.reasoning_content || delta?.reasoning
  const text = `${delta?.content ?? ''}${delta?.refusal ?? ''}`
  const parts: AdkPart[] = [
    ...(thinking ? [{ text: thinking, thought: true }] : []),
    ...(text === '' ? [] : [{ text }]),
  ]
  return parts.length === 0 ? undefined : { content: { role: 'model', parts }, partial: true }
}

/** Stands for a tool that the policy may not run: reports to the policy why. */
class MissingTool extends BaseTool {
  readonly #error: string

  constructor(name: string, error: string) {
    super({ name, description: error })
    this.#error = error
  }

  override async runAsync(): Promise<unknown> {
    return { error: this.#error }
  }
}

/**
 * Adds to a request the tools that its answer calls and that it lacks. For one of them the ADK would throw, run none of
 * the calls beside it, and continue the conversation in the name of the user.
 */
export function addMissingTools({ toolsDict }: LlmRequest, { choices }: ChatCompletion): void {
  for (const { function: called } of choices[0]?.message.tool_calls ?? []) {
    const name = nameForAgent(called.name, called.arguments)
    if (Object.hasOwn(toolsDict, name)) continue
    const error =
      name === called.name
        ? `Unknown tool: ${name}.`
        : `The arguments of ${called.name} are not a JSON object: ${called.arguments}`
    toolsDict[name] = new MissingTool(name, error)
  }
}
