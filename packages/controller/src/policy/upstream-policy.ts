import { errorMessage, isOsmosisError } from '@osmosis/core'
import {
  bearer,
  bodyWithoutKeys,
  completionsBaseUrl,
  completionsUrl,
  createTransport,
  foreignText,
  isForeign,
  type HttpAnswer,
} from '@osmosis/core/http'

import { textWithModel } from '../http/body-text.ts'
import { policyErrorBody, type PolicyModel } from './policy-model.ts'

/** A connection that was there and broke: the next one may hold. */
const lostConnection = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

const passedOn = ['content-type', 'retry-after', 'retry-after-ms']

/** A policy with connections of its own. Whoever made it closes it. */
export interface UpstreamPolicy extends PolicyModel, AsyncDisposable {
  /** Breaks off what is in progress. Calls after that are answered with 502. */
  close(): Promise<void>
}

/**
 * A policy behind any OpenAI-compatible endpoint. Of the text of a request only `model` is replaced; of
 * the answer nothing: status, content type, the time to wait and bytes come back as they were sent, when
 * they were sent; the key is taken out of the text of an error status, of which 64 KiB are passed on.
 * There is no time limit but the call's own signal. An endpoint that cannot be
 * reached is a 502 whose error names the base URL, with the code `policy_unreachable`, or
 * `policy_connection_lost` when it could be. A page, or what is compressed, is an error that says what came:
 * the status of a refusal stays, and of a success it is 502, with the code `no_chat_completion`.
 */
export function upstreamPolicy(options: {
  /** `/chat/completions` is appended, unless it is there already. */
  readonly baseUrl: string
  /** Default: no `authorization` header. */
  readonly apiKey?: string
  /** Sent instead of the model the request names. */
  readonly model: string
}): UpstreamPolicy {
  const { apiKey, model } = options
  const url = completionsUrl(options.baseUrl)
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    // Usage is read from the passing bytes, which compression would hide.
    'accept-encoding': 'identity',
    ...bearer(apiKey),
  }
  const transport = createTransport({
    name: 'policy',
    codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  })
  const close = (): Promise<void> => transport.close()
  return {
    name: model,
    async respond({ body: asked, signal }) {
      // Outside: that a request cannot be written says nothing about the endpoint.
      const body = textWithModel(asked, model)
      let answer: HttpAnswer
      try {
        answer = await transport.send(url, { headers, body, signal })
      } catch (error) {
        signal.throwIfAborted()
        return unreachable(url, isOsmosisError(error) ? error.cause : error)
      }
      if (isForeign(answer)) {
        return foreign(
          answer,
          `The policy at ${placeOf(url)} ${await foreignText(answer, headers['authorization'])}`,
        )
      }
      return new Response(await bodyWithoutKeys(answer, headers), {
        status: answer.status,
        headers: passedOn.flatMap((name): [string, string][] => headerOf(answer, name)),
      })
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** An answer that nobody can read, as an error that says what it was. */
function foreign(answer: HttpAnswer, message: string): Response {
  const isRefusal = answer.status >= 400
  const status = isRefusal ? answer.status : 502
  const code = isRefusal ? 'policy_refused' : 'no_chat_completion'
  const waiting = passedOn.filter((name) => name !== 'content-type')
  const headers = waiting.flatMap((name) => headerOf(answer, name))
  return Response.json(policyErrorBody(status, code, message), { status, headers })
}

function headerOf({ headers }: HttpAnswer, name: string): [string, string][] {
  const value = headers instanceof Headers ? (headers.get(name) ?? []) : (headers[name] ?? [])
  return [value].flat().map((text) => [name, text])
}

/** Keys also travel in user info and query strings. */
function placeOf(url: URL): string {
  const { origin, pathname } = completionsBaseUrl(url)
  return `${origin}${pathname.replace(/\/$/, '')}`
}

function unreachable(url: URL, cause: unknown): Response {
  const isLost = lostConnection.has(String((cause as NodeJS.ErrnoException).code))
  const what = isLost ? 'closed the connection' : 'cannot be reached'
  const message = `The policy at ${placeOf(url)} ${what}: ${errorMessage(cause)}`
  const code = isLost ? 'policy_connection_lost' : 'policy_unreachable'
  return Response.json(policyErrorBody(502, code, message), { status: 502 })
}
