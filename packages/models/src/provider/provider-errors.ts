import { errorMessage, isOsmosisError } from '@osmosis/core'

import { refusal } from '../chat-model.ts'
import { UnsupportedRequest } from './prompt.ts'

/** What the packages of the AI SDK throw when a provider does not answer. */
interface CallError {
  readonly statusCode?: unknown
  readonly responseHeaders?: Readonly<Record<string, string>>
  /** The body of the answer. */
  readonly data?: unknown
}

/** Those that say how long to wait. */
const waitingHeaders = ['retry-after', 'retry-after-ms']

/** An error of a call as the answer of an OpenAI-compatible endpoint. */
export function toRefusal(name: string, error: unknown): Response {
  if (error instanceof UnsupportedRequest) {
    const message = `This cannot be put to ${name} through the AI SDK: ${error.message}.`
    return refusal(400, 'unsupported_request', message)
  }
  const message = `${name}: ${errorMessage(error)}`
  const { statusCode, responseHeaders = {}, data } = error as CallError
  if (typeof statusCode === 'number' && statusCode >= 400) {
    const headers = Object.entries(responseHeaders).filter(([header]) =>
      waitingHeaders.includes(header.toLowerCase()),
    )
    const { code } = (data as { error?: { code?: unknown } } | undefined)?.error ?? {}
    const said = code === 'insufficient_quota' ? code : 'provider_refused'
    return refusal(statusCode, said, message, Object.fromEntries(headers))
  }
  if (isUnreachable(error)) return refusal(502, 'policy_unreachable', message)
  const kind = (error as { name?: unknown } | null)?.name
  if (kind === 'AI_LoadAPIKeyError') return refusal(401, 'missing_api_key', message)
  // The prompt or a setting is something this provider has no form for.
  if (kind === 'AI_UnsupportedFunctionalityError' || kind === 'AI_InvalidPromptError') {
    return refusal(400, 'unsupported_request', message)
  }
  return refusal(502, 'provider_failed', messageOf(name, error))
}

/** The text of an error in the middle of a stream, which may be any value. */
export function messageOf(name: string, error: unknown): string {
  const said = error instanceof Error ? errorMessage(error) : (JSON.stringify(error) ?? 'an error')
  return `${name}: ${said}`
}

function isUnreachable(error: unknown): boolean {
  for (let link = error; link instanceof Error; link = link.cause) {
    if (isOsmosisError(link) && link.code === 'policy_unreachable') return true
  }
  return false
}
