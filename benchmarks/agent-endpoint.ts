// A policy endpoint for agents with one tool: a call of it, then a text, each streamed in 20 chunks
// or as one JSON object, as the request wants it. A process of its own, so that its time is not
// counted as that of the agent.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

const chunks = 20
// The id of an answer is its finish reason: LangGraph takes two messages of one id for one.
const head = { created: 1, model: 'm' }
const usage = { prompt_tokens: 250, completion_tokens: chunks, total_tokens: 250 + chunks }

const callPieces = Array.from({ length: chunks - 2 }, (_, n) =>
  n === 3 ? '"a": 12, "b": 34' : ' ',
)
const args = `{${callPieces.join('')}}`
const call = { id: 'call_1', type: 'function', function: { name: 'multiply', arguments: args } }
const words = Array.from({ length: chunks }, (_, n) => `word${n} `)

const answers = {
  call: {
    events: eventStream(
      [
        { role: 'assistant', content: '' },
        toolDelta({ ...call, function: { ...call.function, arguments: '{' } }),
        ...[...callPieces, '}'].map((piece) => toolDelta({ function: { arguments: piece } })),
      ],
      'tool_calls',
    ),
    json: completion({ role: 'assistant', content: null, tool_calls: [call] }, 'tool_calls'),
  },
  text: {
    events: eventStream(
      [{ role: 'assistant', content: '' }, ...words.map((content) => ({ content }))],
      'stop',
    ),
    json: completion({ role: 'assistant', content: words.join('') }, 'stop'),
  },
}

const callArguments = { a: 12, b: 34 }
/** The same for clients of Gemini, which streams a call whole. */
const geminiAnswers = {
  call: gemini([{ functionCall: { id: call.id, name: 'multiply', args: callArguments } }]),
  text: gemini(words.map((text) => ({ text }))),
}

interface Request {
  messages?: { role: string }[]
  stream?: boolean
  /** Of Gemini. */
  contents?: { parts: object[] }[]
}

let answered = 0
async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const request = (await json(incoming)) as Request
  const { messages = [], contents = [], stream = incoming.url?.includes(':stream') } = request
  const of = request.contents ? geminiAnswers : answers
  const hasResult =
    messages.some(({ role }) => role === 'tool') ||
    contents.some(({ parts }) => parts.some((part) => 'functionResponse' in part))
  const said = hasResult ? of.text : of.call
  // Spread evenly by the golden ratio: with one latency for all, answers would come in bursts.
  const latencyMs = 50 * (1 + ((answered++ * 0.618034) % 1))
  setTimeout(() => {
    const type = stream ? 'text/event-stream' : 'application/json'
    outgoing.writeHead(200, { 'content-type': type })
    outgoing.end(stream ? said.events : said.json)
  }, latencyMs)
}

const server = createServer((incoming, outgoing) => void answer(incoming, outgoing))
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())

function toolDelta(delta: object): object {
  return { tool_calls: [{ index: 0, ...delta }] }
}

function eventStream(deltas: readonly object[], finishReason: string): string {
  const choices = [
    ...deltas.map((delta) => [{ index: 0, delta, finish_reason: null }]),
    [{ index: 0, delta: {}, finish_reason: finishReason }],
  ]
  const events = [...choices.map((list) => ({ choices: list })), { choices: [], usage }]
  const lines = events.map((event) =>
    JSON.stringify({ ...head, id: finishReason, object: 'chat.completion.chunk', ...event }),
  )
  return [...lines, '[DONE]'].map((line) => `data: ${line}\n\n`).join('')
}

function completion(message: object, finishReason: string): string {
  const choices = [{ index: 0, message, finish_reason: finishReason }]
  return JSON.stringify({ ...head, id: finishReason, object: 'chat.completion', choices, usage })
}

function gemini(parts: readonly { text?: string; functionCall?: object }[]): {
  events: string
  json: string
} {
  const answerOf = (some: readonly object[], finishReason?: string): string =>
    JSON.stringify({
      candidates: [{ content: { role: 'model', parts: some }, finishReason }],
      usageMetadata: { promptTokenCount: 250, candidatesTokenCount: chunks, totalTokenCount: 270 },
    })
  const text = parts.map((part) => part.text ?? '').join('')
  const pieces = parts.map((part, n) =>
    answerOf([part], n === parts.length - 1 ? 'STOP' : undefined),
  )
  return {
    events: pieces.map((piece) => `data: ${piece}\r\n\r\n`).join(''),
    json: answerOf(text === '' ? parts : [{ text }], 'STOP'),
  }
}
