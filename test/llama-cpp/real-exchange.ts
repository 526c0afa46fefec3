/** What a server answered to a request, byte for byte. */
export interface RealExchange {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** A server that speaks chat completions. */
export interface AskedServer {
  /** Base URL, without `/chat/completions`. */
  readonly url: string
  readonly model: string
  readonly key: string
}

/** Sends a chat as it is, without the code that is tested. A `model` in it replaces that of the server. */
export async function exchange(
  { url, model, key }: AskedServer,
  request: object,
): Promise<RealExchange> {
  return exchangeAt(`${url}/chat/completions`, key, { model, ...request })
}

/** Posts a body of JSON to a route. */
export async function exchangeAt(url: string, key: string, request: object): Promise<RealExchange> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  const contentType = answer.headers.get('content-type') ?? ''
  return { status: answer.status, contentType, body: await answer.text() }
}

export const askForProduct = [{ role: 'user', content: 'Multiply 6 by 8.' }]

export const multiplyTools = [
  {
    type: 'function',
    function: {
      name: 'multiply',
      description: 'Multiplies two numbers.',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
      },
    },
  },
]

export const streamed = { stream: true, stream_options: { include_usage: true } }

/** More words than the context of a server of these tests has room for. */
export const tooManyWords = [{ role: 'user', content: 'word '.repeat(3000) }]
