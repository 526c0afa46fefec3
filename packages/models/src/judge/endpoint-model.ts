import { isOsmosisError } from '@osmosis/core'
import {
  bearer,
  bodyWithoutKeys,
  completionsUrl,
  createTransport,
  foreignText,
  isForeign,
} from '@osmosis/core/http'

import { refusal, type ChatModel } from '../chat-model.ts'

/** A model of an OpenAI-compatible endpoint. */
export interface ModelEndpoint {
  /** `/chat/completions` is appended, unless it is there already. */
  readonly baseUrl: string
  readonly model: string
  /** Default: no key is sent. */
  readonly apiKey?: string | undefined
}

const passedOn = new Set(['content-type', 'retry-after', 'retry-after-ms'])

/**
 * A model of an OpenAI-compatible endpoint that belongs to no rollout: what it is asked carries no ids of
 * one and is no sample. The code that made it closes it.
 */
export function endpointModel({
  baseUrl,
  model,
  apiKey,
}: ModelEndpoint): ChatModel & AsyncDisposable {
  const url = completionsUrl(baseUrl)
  const transport = createTransport({
    name: 'model endpoint',
    codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  })
  const headers = { 'content-type': 'application/json', ...bearer(apiKey) }
  const close = (): Promise<void> => transport.close()
  return {
    name: model,
    async respond({ body, signal }) {
      try {
        const asked = JSON.stringify({ ...body, model })
        const answer = await transport.send(url, { headers, body: asked, signal })
        if (isForeign(answer)) {
          const said = await foreignText(answer, headers['authorization'])
          const status = answer.status >= 400 ? answer.status : 502
          return refusal(status, 'no_chat_completion', `The model endpoint ${said}`)
        }
        const after = new Headers(
          Object.entries(answer.headers as Record<string, string>).filter(([name]) =>
            passedOn.has(name),
          ),
        )
        return new Response(await bodyWithoutKeys(answer, headers), {
          status: answer.status,
          headers: after,
        })
      } catch (error) {
        signal.throwIfAborted()
        if (!isOsmosisError(error)) throw error
        return refusal(502, 'policy_unreachable', error.message)
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
