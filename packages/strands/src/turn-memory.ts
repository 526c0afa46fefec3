import { isJsonObject } from '@osmosis/core/http'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import type { Message, ToolUseBlock } from '@strands-agents/sdk'

/** How every copy of this package finds the memory of a model. */
export const turnMemoryKey: unique symbol = Symbol.for('osmosis.strands.turn-memory')

const promptKey = 'osmosisPrompt'

/** What an agent has to remember because messages of Strands have no place for it. */
export class TurnMemory {
  readonly #prompt: { readonly content: string; readonly given: readonly ChatMessage[] }[] = []
  readonly #names = new Map<string, string>()
  readonly #problems = new Map<string, string>()

  /** Notes what the message of Strands was made of; the note goes with it when it is copied. */
  notePrompt(message: Message, given: readonly ChatMessage[]): void {
    for (const block of message.content) {
      if (block.type === 'toolUseBlock') this.#names.set(block.toolUseId, block.name)
    }
    const index = this.#prompt.push({ content: this.#textOf(message), given }) - 1
    message.metadata = {
      ...message.metadata,
      custom: { ...message.metadata?.custom, [promptKey]: index },
    }
  }

  /** The messages of the prompt that this one was made of; undefined when it was changed since. */
  promptOf(message: Message): readonly ChatMessage[] | undefined {
    const index = message.metadata?.custom?.[promptKey]
    const note = typeof index === 'number' ? this.#prompt[index] : undefined
    return note?.content === this.#textOf(message) ? note?.given : undefined
  }

  /**
   * Notes a tool call of the policy.
   *
   * @returns its id, and its arguments as the text of an object
   */
  noteCall(call: ChatToolCall): { id: string; input: string } {
    const { id } = call
    this.#names.set(id, call.function.name)
    const problem = problemOf(call.function.arguments)
    if (problem === undefined) this.#problems.delete(id)
    else this.#problems.set(id, problem)
    const text = call.function.arguments
    return { id, input: problem === undefined && text.trim() !== '' ? text : '{}' }
  }

  /** What is wrong with the arguments of a call; undefined for those that can be executed. */
  problemOf(toolUseId: string): string | undefined {
    return this.#problems.get(toolUseId)
  }

  /** The name as the policy wrote it: Strands replaces those that no tool can have. */
  nameOf({ toolUseId, name }: ToolUseBlock): string {
    return name === 'INVALID_TOOL_NAME' ? (this.#names.get(toolUseId) ?? name) : name
  }

  #textOf({ content }: Message): string {
    return JSON.stringify(
      content.map((block) =>
        block.type === 'toolUseBlock' ? [block.toolUseId, this.nameOf(block), block.input] : block,
      ),
    )
  }
}

/** The memory of a model of this package; undefined for any other. */
export function turnMemoryOf(model: object): TurnMemory | undefined {
  return turnMemoryKey in model ? (model[turnMemoryKey] as TurnMemory) : undefined
}

function problemOf(text: string): string | undefined {
  // A tool without parameters is called with nothing by some policies.
  if (text.trim() === '') return undefined
  const shown = text.length > 300 ? `${text.slice(0, 300)}…` : text
  try {
    const value: unknown = JSON.parse(text)
    if (isJsonObject(value)) return undefined
    return `tool arguments must be a JSON object: ${shown}`
  } catch (error) {
    return `tool arguments are not valid JSON (${(error as Error).message}): ${shown}`
  }
}
