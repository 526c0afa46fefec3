type Message = Readonly<Record<string, unknown>>

/** Messages as a person reads them, a line or more for each. */
export function messageLines(messages: readonly Message[]): string[] {
  const names = toolNames(messages)
  return messages.flatMap((message) => linesOf(message, names))
}

function linesOf(message: Message, names: ReadonlyMap<unknown, string>): string[] {
  const { role, content, tool_call_id: callId } = message
  const who = role === 'tool' ? `tool ${names.get(callId) ?? ''}`.trimEnd() : String(role)
  const text = typeof content === 'string' ? content : JSON.stringify(content ?? null)
  const calls = toolCalls(message).map(({ name, args }) => `[${who}] calls ${name}(${args})`)
  return content === null && calls.length > 0 ? calls : [`[${who}] ${text}`, ...calls]
}

function toolNames(messages: readonly Message[]): Map<unknown, string> {
  return new Map(messages.flatMap(toolCalls).map(({ id, name }) => [id, name]))
}

function toolCalls(message: Message): { id: unknown; name: string; args: string }[] {
  const calls: unknown = message['tool_calls']
  if (!Array.isArray(calls)) return []
  return calls.map((call: unknown) => {
    const { id, function: called } = (call ?? {}) as { id?: unknown; function?: unknown }
    const { name, arguments: args } = (called ?? {}) as { name?: unknown; arguments?: unknown }
    return {
      id,
      name: String(name),
      args: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
    }
  })
}
