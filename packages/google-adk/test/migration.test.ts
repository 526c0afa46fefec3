import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

import { expect } from 'vitest'

import { calculatorRequest, printedBy, runMigrationContract } from '../../../test/kit/index.ts'
import { MultiplyGrader } from './examples/multiply.ts'
import { CalculatorWorkflow } from './migration/after.ts'

const [system, question] = calculatorRequest.messages

runMigrationContract({
  before: new URL('migration/before.ts', import.meta.url),
  after: new URL('migration/after.ts', import.meta.url),
  workflow: CalculatorWorkflow,
  grader: MultiplyGrader,
  users: { tags: 'slow' },
  // The ADK adds the name of the agent.
  policyRequest: {
    messages: [{ role: 'system', content: expect.stringContaining(system.content) }, question],
  },
  async serveUser(program) {
    await using gemini = await startGeminiEndpoint([
      [{ functionCall: { id: 'call-1', name: 'multiply', args: { a: 12, b: 34 } } }],
      [{ text: '12 times 34 is 408.' }],
    ])
    const env = { GOOGLE_GEMINI_BASE_URL: gemini.url, GEMINI_API_KEY: 'key' }
    const { stdout } = await printedBy(program, env)
    expect(gemini.requests).toHaveLength(2)
    return stdout
  },
})

/** Answers Gemini's generateContent with the given parts, one list for each request. */
async function startGeminiEndpoint(
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
