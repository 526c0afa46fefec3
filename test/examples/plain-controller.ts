import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'

/** One request that reached the controller. */
interface Received {
  kind: 'policy' | 'completion' | 'grader'
  headers: IncomingHttpHeaders
  /** The bytes of the body, as text. */
  raw: string
}

/** An assistant message of the policy, with the exact arguments of its tool calls. */
export interface Answer {
  content: string | null
  reasoning_content?: string
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[]
}

/** The cluster's side of the protocol, in plain node:http and with nothing of this SDK. */
export interface PlainController extends AsyncDisposable {
  url: string
  received: Received[]
  /** Resolves when the grader callback has been acknowledged. */
  graded: Promise<void>
}

export async function startPlainController(answers: readonly Answer[]): Promise<PlainController> {
  const received: Received[] = []
  const graded = Promise.withResolvers<undefined>()
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = await readText(request)
    const kind = request.url?.endsWith('/chat/completions')
      ? 'policy'
      : request.url?.endsWith('/completion')
        ? 'completion'
        : 'grader'
    const turn = received.filter((entry) => entry.kind === 'policy').length
    received.push({ kind, headers: request.headers, raw })
    if (kind === 'policy') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(eventStream(answers[turn]))
      return
    }
    response.writeHead(200).end('{}')
    if (kind === 'grader') graded.resolve(undefined)
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    graded: graded.promise,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function eventStream(answer: Answer | undefined): string {
  const delta = {
    role: 'assistant',
    ...answer,
    ...(answer?.tool_calls
      ? { tool_calls: answer.tool_calls.map((call, index) => ({ index, ...call })) }
      : {}),
  }
  const finishReason = answer?.tool_calls ? 'tool_calls' : 'stop'
  const chunk = { choices: [{ index: 0, delta, finish_reason: finishReason }] }
  return `: ping\n\ndata: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of request.setEncoding('utf8')) text += String(part)
  return text
}
