import { isJsonObject } from '@osmosis/core/http'

/**
 * The text of the last assistant message: empty when it only calls tools or its content is a list of parts, null
 * when there is no assistant message. For rewards and logs.
 */
export function getLastAssistantContent(
  messages: readonly Readonly<Record<string, unknown>>[],
): string | null {
  const last = messages.findLast(({ role }) => role === 'assistant')
  if (last === undefined) return null
  return typeof last['content'] === 'string' ? last['content'] : ''
}

/** The fields of an object; none of any other value. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {}
}
