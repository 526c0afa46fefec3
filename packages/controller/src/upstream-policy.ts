import { Readable } from 'node:stream'

import { errorMessage } from '@osmosis/core'
import { Agent, type Dispatcher, request } from 'undici'

import { policyErrorBody } from './policy-error.ts'
import type { PolicyModel } from './policy-model.ts'

/** A connection that was there and broke: the next one may hold. */
const lostConnection = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

const passedOn = ['content-type', 'retry-after']

/**
 * A policy behind any OpenAI-compatible endpoint. Of the request only `model` is replaced; of the
 * answer nothing: status, content type, `Retry-After` and bytes come back as they were sent, when
 * they were sent. There is no time limit but the call's own signal. An endpoint that cannot be
 * reached is a 502 whose error names the base URL, with the code `policy_unreachable`, or
 * `policy_connection_lost` when it could be.
 */
export function upstreamPolicy(options: {
  /** `/chat/completions` is appended, unless it is there already. */
  readonly baseUrl: string
  /** Default: no `authorization` header. */
  readonly apiKey?: string
  /** Sent in place of the model the request names. */
  readonly model: string
}): PolicyModel {
  const { apiKey, model } = options
  const url = completionsUrl(options.baseUrl)
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    // Usage is read from the passing bytes, which compression would hide.
    'accept-encoding': 'identity',
    ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
  }
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 10_000 } })
  return {
    name: model,
    async respond(call) {
      let answer: Dispatcher.ResponseData
      try {
        const body = JSON.stringify({ ...call.body, model })
        const { signal } = call
        answer = await request(url, { method: 'POST', headers, body, signal, dispatcher })
      } catch (error) {
        call.signal.throwIfAborted()
        const isLost = lostConnection.has(String((error as NodeJS.ErrnoException).code))
        const what = isLost ? 'closed the connection' : 'cannot be reached'
        const message = `The policy at ${withoutSecrets(url)} ${what}: ${errorMessage(error)}`
        const code = isLost ? 'policy_connection_lost' : 'policy_unreachable'
        return Response.json(policyErrorBody(502, code, message), { status: 502 })
      }
      return new Response(Readable.toWeb(answer.body), {
        status: answer.statusCode,
        headers: passedOn.flatMap((name): [string, string][] =>
          [answer.headers[name] ?? []].flat().map((value) => [name, value]),
        ),
      })
    },
  }
}

function completionsUrl(baseUrl: string): URL {
  const url = new URL(baseUrl)
  const path = url.pathname.replace(/\/+$/, '')
  url.pathname = path.endsWith('/chat/completions') ? path : `${path}/chat/completions`
  return url
}

// Keys also travel in user info and query strings.
function withoutSecrets(url: URL): string {
  return url.origin + url.pathname.replace(/\/chat\/completions$/, '')
}
