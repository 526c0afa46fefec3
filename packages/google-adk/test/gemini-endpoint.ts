import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** Answers Gemini's generateContent with the given parts, one list for each request. */
export async function startGeminiEndpoint(
  answers: readonly object[][],
): Promise<AsyncDisposable & { readonly url: string; readonly requests: object[] }> {
  const requests: object[] = []
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const parts = answers[requests.push((await json(incoming)) as object) - 1]
    const candidates = [{ content: { role: 'model', parts }, finishReason: 'STOP' }]
    outgoing.writeHead(200, { 'content-type': 'application/json' })
    outgoing.end(JSON.stringify({ candidates }))
  }
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
