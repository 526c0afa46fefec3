import { bodyWithoutKeys, type Transport } from '@osmosis/core/http'

/**
 * A `fetch` for the packages of providers. Node's own would give up on an answer that is silent for
 * 300 s; here the signal of the call is the only limit.
 */
export function providerFetch(transport: Transport): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const url = input instanceof Request ? input.url : input
    const { body, signal } = init
    if (typeof body !== 'string') throw new TypeError('A provider is asked with texts only.')
    // Compressed answers would have to be undone.
    const sent = { ...Object.fromEntries(new Headers(init.headers)), 'accept-encoding': 'identity' }
    const answer = await transport.send(url, {
      headers: sent,
      body,
      signal: signal ?? new AbortController().signal,
    })
    const headers = new Headers()
    for (const [name, value] of Object.entries(answer.headers as Record<string, unknown>)) {
      for (const text of [value].flat()) {
        if (typeof text === 'string') headers.append(name, text)
      }
    }
    const hasBody = answer.status !== 204 && answer.status !== 304
    return new Response(hasBody ? await bodyWithoutKeys(answer, sent) : null, {
      status: answer.status,
      headers,
    })
  }
}
