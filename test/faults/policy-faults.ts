import type { ServerResponse } from 'node:http'

import { pick } from './chance.ts'

/** One model call, and how to answer it. */
interface Call {
  readonly chance: number
  readonly stream: boolean
  readonly answer: string
  /** Called before the whole answer is sent. */
  readonly wholly: () => void
}

const weights: [Fault, number][] = [
  ['reset', 0.02],
  ['status 500', 0.02],
  ['status 429', 0.015],
  ['redirect', 0.004],
  ['slow answer', 0.02],
  ['no answer', 0.004],
  ['half answer, cut', 0.01],
  ['half answer, ended', 0.01],
  ['two answers', 0.008],
  ['nonsense', 0.008],
]
type Fault =
  | 'reset'
  | 'status 500'
  | 'status 429'
  | 'redirect'
  | 'slow answer'
  | 'no answer'
  | 'half answer, cut'
  | 'half answer, ended'
  | 'two answers'
  | 'nonsense'

/** Answers a model call. Returns the injected fault, if any. */
export function answerCall(out: ServerResponse, call: Call): string | undefined {
  const fault = pick<Fault | undefined>(call.chance, weights, undefined)
  switch (fault) {
    case undefined:
      sendWhole(out, call)
      break
    case 'reset':
      out.socket?.destroy()
      break
    case 'status 500':
      out.writeHead(500).end('{"error":{"message":"overloaded"}}')
      break
    case 'status 429':
      out.writeHead(429, { 'retry-after': '0' }).end()
      break
    case 'redirect':
      out.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
      break
    case 'slow answer':
      setTimeout(() => sendWhole(out, call), 400)
      break
    case 'no answer':
      break
    case 'half answer, cut':
      begin(out, call).write(textOf(call).slice(0, -30), () => out.socket?.destroy())
      break
    case 'half answer, ended':
      begin(out, call).end(
        call.stream ? chunk(call.answer.slice(0, 4)) : textOf(call).slice(0, -30),
      )
      break
    case 'two answers':
      begin(out, call).end(
        textOf({ ...call, isFollowed: true }) + textOf({ ...call, answer: '0.5' }),
      )
      break
    case 'nonsense':
      begin(out, call).end(call.stream ? 'data: {"choices":[{"delta":7}]}\n\n' : '[{"choices":')
  }
  return fault
}

function sendWhole(out: ServerResponse, call: Call): void {
  // Counted before it is sent, because the caller may disconnect at any moment.
  call.wholly()
  begin(out, call).end(textOf(call))
}

function begin(out: ServerResponse, { stream }: Call): ServerResponse {
  return out.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
}

function textOf({ stream, answer, isFollowed = false }: Call & { isFollowed?: boolean }): string {
  const message = { role: 'assistant', content: answer }
  if (!stream) return JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] })
  const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  const end = `data: ${JSON.stringify(last)}\n\n`
  const done = isFollowed ? '' : 'data: [DONE]\n\n'
  return `${chunk(answer.slice(0, 4))}${chunk(answer.slice(4))}${end}${done}`
}

function chunk(content: string): string {
  const choice = { index: 0, delta: { role: 'assistant', content }, finish_reason: null }
  return `data: ${JSON.stringify({ choices: [choice] })}\n\n`
}
