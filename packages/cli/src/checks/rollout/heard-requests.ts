import type { PolicyModel } from '@osmosis/controller'
import { isJsonObject } from '@osmosis/core/http'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import { isToolError, shownContent } from '@osmosis/eval/analysis'

import { schemaExample, type ProbedTool } from './scripted-probe.ts'

/** Facts about the requests of rollouts so far; the maps grow with later ones. */
export interface HeardRequests {
  /** Ids of samples that sent one prompt twice. */
  readonly repeated: readonly string[]
  /** Whether a request set temperature 0. */
  readonly greedy: boolean
  /** The tools that the policy was offered, by name: whether the arguments that {@link schemaExample} makes for it are more than `{}`. */
  readonly tools: ReadonlyMap<string, boolean>
  /** The first error of each tool, by its name. */
  readonly toolErrors: ReadonlyMap<string, string>
  /** Ids of samples that sent a question and its answer, or the prompt of the row, more often than they were said. */
  readonly doubled: readonly string[]
  /** The number of assistant messages in the first request of each rollout, by its id. */
  readonly firstAnswers: ReadonlyMap<string, number>
}

/**
 * Observes the requests of rollouts to `policy`.
 *
 * @param prompt - of the row
 */
export function hearRequests(
  policy: PolicyModel,
  prompt: readonly { readonly role: string; readonly content: string }[],
): {
  readonly policy: PolicyModel
  readonly heard: () => HeardRequests
} {
  const answered = new Set<string>()
  const repeated = new Set<string>()
  const doubled = new Set<string>()
  const tools = new Map<string, boolean>()
  const toolErrors = new Map<string, string>()
  const firstAnswers = new Map<string, number>()
  const calls = new Map<string, number>()
  let greedy = false
  return {
    policy: {
      ...policy,
      respond: async (request) => {
        const { rolloutId, sampleId, body } = request
        greedy ||= body['temperature'] === 0
        const messages = (body['messages'] ?? []) as ChatMessage[]
        for (const [name, takes] of offeredTools(body['tools'])) tools.set(name, takes)
        noteToolErrors(messages, toolErrors)
        const before = calls.get(rolloutId) ?? 0
        if (!firstAnswers.has(rolloutId)) firstAnswers.set(rolloutId, answersIn(messages))
        const said = (firstAnswers.get(rolloutId) ?? 0) + before
        const isDoubled =
          before === 0
            ? repeatsPrompt(messages, prompt)
            : answersIn(messages) > said && repeatsExchange(messages)
        if (isDoubled) doubled.add(sampleId)
        const answer = await policy.respond(request)
        // A call that was refused is sent again.
        if (!answer.ok) return answer
        calls.set(rolloutId, (calls.get(rolloutId) ?? 0) + 1)
        const prompted = JSON.stringify([rolloutId, body['messages']])
        if (answered.has(prompted)) repeated.add(sampleId)
        answered.add(prompted)
        return answer
      },
    },
    heard: () => ({
      repeated: [...repeated],
      greedy,
      tools,
      toolErrors,
      doubled: [...doubled],
      firstAnswers,
    }),
  }
}

function offeredTools(tools: unknown): [name: string, takesArguments: boolean][] {
  const offered = (tools ?? []) as readonly ProbedTool[]
  return offered.flatMap(({ function: { name, parameters = {} } = {} }) => {
    const made = Object.keys(schemaExample(parameters) ?? {})
    return name === undefined ? [] : [[name, made.length > 0]]
  })
}

function noteToolErrors(messages: readonly ChatMessage[], errors: Map<string, string>): void {
  const calls = messages.flatMap(functionCalls)
  for (const { role, content, tool_call_id: id } of messages) {
    const tool = calls.find((call) => call.id === id)?.function.name
    if (role !== 'tool' || tool === undefined || errors.has(tool)) continue
    if (isToolError({ content })) errors.set(tool, shownContent(content).text.slice(0, 500))
  }
}

/** The calls of functions in a message, which may have anything in their place: agents write messages of their own. */
export function functionCalls({ tool_calls: calls }: ChatMessage): ChatToolCall[] {
  if (!Array.isArray(calls)) return []
  return calls.filter((call: Partial<ChatToolCall> | null) => isJsonObject(call?.function))
}

function answersIn(messages: readonly ChatMessage[]): number {
  return messages.filter(({ role }) => role === 'assistant').length
}

/** Whether the question of the row stands in a first request more often than in the row. */
function repeatsPrompt(
  messages: readonly ChatMessage[],
  prompt: readonly { readonly role: string; readonly content: string }[],
): boolean {
  const question = prompt.findLast(({ role }) => role === 'user')?.content
  if (question === undefined) return false
  const asked = messages.filter(
    ({ role, content }) => role === 'user' && textOf(content) === question,
  )
  return asked.length > 1
}

/** Whether one answer stands behind one question twice. */
function repeatsExchange(messages: readonly ChatMessage[]): boolean {
  const exchanges = new Set<string>()
  let question = ''
  for (const message of messages) {
    const { role, content } = message
    if (role === 'user') question = textOf(content)
    if (role !== 'assistant') continue
    const called = functionCalls(message).map((call) => call.function)
    const exchange = JSON.stringify([question, textOf(content), called])
    if (exchanges.has(exchange)) return true
    exchanges.add(exchange)
  }
  return false
}

function textOf(content: ChatMessage['content']): string {
  return shownContent(content).text
}
