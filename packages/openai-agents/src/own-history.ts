import type { AgentInputItem } from '@openai/agents'

/**
 * Joins the items of a session and the list that a run was given. Programs that keep their own history give each run
 * all of it, or what the model is to read of it. The SDK puts such a list behind the items of the session, and the
 * model reads everything twice. Here the list is read as it stands, and the session stores what is new in it.
 */
export function joinedInput(stored: AgentInputItem[], given: AgentInputItem[]): AgentInputItem[] {
  if (!repeatsLastExchange(stored, given)) return [...stored, ...given]
  const known = new Map<string, AgentInputItem[]>()
  for (const item of stored) {
    const alike = known.get(keyOf(item))
    if (alike) alike.push(item)
    else known.set(keyOf(item), [item])
  }
  // The SDK stores what is not one of the objects of the session.
  return given.map((item) => known.get(keyOf(item))?.shift() ?? item)
}

/**
 * Whether a list has the latest question of a session and, behind it, an answer to it. Less shows no history: a
 * question may be asked twice, and each run may begin with the same examples.
 */
function repeatsLastExchange(
  stored: readonly AgentInputItem[],
  given: readonly AgentInputItem[],
): boolean {
  const said = stored.slice(0, stored.findLastIndex(isAnswer) + 1)
  const exchange = said.slice(Math.max(0, said.findLastIndex(isQuestion)))
  const [question, ...others] = exchange.map(keyOf)
  const answers = new Set(others.filter((_, index) => isAnswer(exchange[index + 1])))
  const asked = given.findIndex((item) => keyOf(item) === question)
  return asked >= 0 && given.slice(asked + 1).some((item) => answers.has(keyOf(item)))
}

function isQuestion(item: AgentInputItem): boolean {
  return 'role' in item && item.role === 'user'
}

function isAnswer(item: AgentInputItem | undefined): boolean {
  if (item === undefined) return false
  return 'role' in item ? item.role === 'assistant' : item.type === 'function_call'
}

/** What an item says, without what the SDK or a program's own store adds to it or leaves out. */
function keyOf(item: AgentInputItem): string {
  if ('role' in item) return JSON.stringify([item.role, textOf(item.content)])
  if (item.type === 'function_call') {
    return JSON.stringify([item.type, item.callId, item.name, item.arguments])
  }
  return JSON.stringify({ ...item, id: undefined, status: undefined, providerData: undefined })
}

function textOf(content: string | readonly object[]): string {
  if (typeof content === 'string') return content
  return content.map((part) => ('text' in part ? part.text : JSON.stringify(part))).join('')
}
