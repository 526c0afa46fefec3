import { errorMessage, isOsmosisError } from '@osmosis/core'
import {
  bearer,
  bodyWithoutKeys,
  completionsBaseUrl,
  completionsUrl,
  createTransport,
  foreignText,
  isForeign,
  type HttpResponse,
} from '@osmosis/core/http'

import { textWithModel } from '../http/request-body.ts'
import { policyErrorBody, type PolicyModel } from './policy-model.ts'

/** Codes of a connection that broke after it was established. */
const lostConnection = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

const forwardedNames = ['content-type', 'retry-after', 'retry-after-ms']

/** A policy with its own connections. Its creator closes it. */
export interface UpstreamPolicy extends PolicyModel, AsyncDisposable {
  /** Aborts calls in progress. Later calls are answered with 502. */
  close(): Promise<void>
}

/**
 * A policy behind any OpenAI-compatible endpoint. Only the `model` of a request is replaced. Status, content
 * type, `Retry-After` and bytes of the answer are forwarded unchanged as they arrive; the body of an error is
 * cut to 64 KiB and cleared of the key. The only time limit is the signal of the call.
 *
 * An unreachable endpoint is a 502 that names the base URL, with the code `policy_unreachable`, or
 * `policy_connection_lost` if the connection broke. A page or a compressed body is replaced by an error that
 * quotes it, with the status of a refusal, or 502 and the code `no_chat_completion` for a success.
 */
export function upstreamPolicy(options: {
  /** `/chat/completions` is appended, unless it is there already. */
  readonly baseUrl: string
  /** Default: no `authorization` header. */
  readonly apiKey?: string
  /** Sent instead of the model the request names. */
  readonly model: string
  /** Gets the headers of each answer, of which callers get few: they name the server, and gateways before it. */
  readonly onHeaders?: ((headers: Headers) => void) | undefined
}): UpstreamPolicy {
  const { apiKey, model, onHeaders } = options
  const url = completionsUrl(options.baseUrl)
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    // Usage is read from the bytes, so they must not be compressed.
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
    async respond({ body: request, signal }) {
      // Outside of the try block: its errors are not errors of the endpoint.
      const body = textWithModel(request, model)
      let answer: HttpResponse
      try {
        answer = await transport.send(url, { headers, body, signal })
      } catch (error) {
        signal.throwIfAborted()
        return unreachable(url, isOsmosisError(error) ? error.cause : error)
      }
      onHeaders?.(headersOf(answer))
      if (isForeign(answer)) {
        return foreign(
          answer,
          `The policy ${await foreignText(answer, headers['authorization'])} (${placeOf(url)})`,
        )
      }
      return new Response(await bodyWithoutKeys(answer, headers), {
        status: answer.status,
        headers: forwardedNames.flatMap((name): [string, string][] => headerOf(answer, name)),
      })
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Replaces an answer that is not a chat completion by an error that describes it. */
function foreign(answer: HttpResponse, message: string): Response {
  const isRefusal = answer.status >= 400
  const status = isRefusal ? answer.status : 502
  const code = isRefusal ? 'policy_refused' : 'no_chat_completion'
  const waiting = forwardedNames.filter((name) => name !== 'content-type')
  const headers = waiting.flatMap((name) => headerOf(answer, name))
  return Response.json(policyErrorBody(status, code, message), { status, headers })
}

function headersOf({ headers }: HttpResponse): Headers {
  if (headers instanceof Headers) return headers
  const all = Object.entries(headers).flatMap(([name, value = []]) =>
    [value].flat().map((text): [string, string] => [name, text]),
  )
  return new Headers(all)
}

function headerOf({ headers }: HttpResponse, name: string): [string, string][] {
  const value = headers instanceof Headers ? (headers.get(name) ?? []) : (headers[name] ?? [])
  return [value].flat().map((text) => [name, text])
}

/** Without user info and query string, which may have keys. */
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
