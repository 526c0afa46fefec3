interface WireMessage {
  tool_calls?: { function: { arguments: string } }[]
}

/**
 * Tool arguments in a form in which the rollout recognises what the policy wrote. Arguments that
 * are no JSON object come back from the SDK as `{}`, as the JSON text of a string that holds them,
 * or re-serialised, depending on what is wrong with them and on the version of the SDK.
 */
export function recognisableArguments(message: WireMessage): WireMessage {
  if (!message.tool_calls) return message
  return {
    ...message,
    tool_calls: message.tool_calls.map((call) => ({
      ...call,
      function: { ...call.function, arguments: asWritten(call.function.arguments) },
    })),
  }
}

function asWritten(json: string): string {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    // From a prompt of the user's own; the rollout knows what to do with it.
    return json
  }
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? json : '{}'
}
