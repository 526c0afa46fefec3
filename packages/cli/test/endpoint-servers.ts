import type { ServerResponse } from 'node:http'

import { drawLetters, randomOf } from './drawn-letters.ts'
import { refuse, type Received } from './model-endpoint.ts'

/** What a server makes of requests; a test changes some of it. */
export interface Habits {
  /** Which answers have token ids and logprobs. */
  readonly ids: 'all' | 'unstreamed' | 'none'
  readonly logprobs: 'all' | 'none'
  /** What the chunks lack while a parser holds them back: of a tool call, or of thinking. */
  readonly streamLoses: 'nothing' | 'tokens of calls' | 'logprobs of thinking'
  readonly streams:
    | 'yes'
    | 'no, one object'
    | 'refused'
    | 'no logprobs with tools'
    | 'breaks off'
    | 'without usage'
  readonly tools: 'parsed' | 'left in the text' | 'left in the text of streams' | 'refused'
  readonly callsTool: boolean
  /** The field that has the thinking before each text; undefined: the model does not think. */
  readonly thinksIn: 'reasoning' | 'reasoning_content' | undefined
  readonly keepsPrefixes: boolean
  readonly heedsTemperature: boolean
  readonly scalesLogprobs: boolean
  readonly drawsAsStated: boolean
  /** A field of requests that it refuses. */
  readonly refuses: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

const usual: Habits = {
  ids: 'all',
  logprobs: 'all',
  streamLoses: 'nothing',
  streams: 'yes',
  tools: 'parsed',
  callsTool: true,
  thinksIn: undefined,
  keepsPrefixes: true,
  heedsTemperature: true,
  scalesLogprobs: true,
  drawsAsStated: true,
  refuses: undefined,
  headers: {},
}

interface Message {
  readonly role: string
  readonly content?: string | null
  readonly reasoning?: string | null
  readonly reasoning_content?: string | null
  readonly tool_calls?: unknown
}

/** A token of an answer: what it adds to the message, and its logprob. */
interface Token {
  readonly id: number
  readonly delta: Readonly<Record<string, unknown>>
  readonly part: 'thinking' | 'call' | 'text'
  readonly logprob: object
}

/** The whole of one answer, before it is written as one object or as a stream. */
interface Said {
  readonly promptIds: readonly number[]
  readonly tokens: readonly Token[]
  readonly message: object
}

/** Tokens are the characters of the conversation. */
function idsOf(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0)
}

const called = '<tool_call>{"name": "read_note"}</tool_call>'
const call = { id: 'c1', type: 'function', function: { name: 'read_note', arguments: '{}' } }

function answerTo(body: Received['body'], habits: Habits, n: number): Said {
  const messages = body['messages'] as readonly Message[]
  const temperature = Number(body['temperature'])
  const said = (one: Message): string =>
    `${one.reasoning ?? one.reasoning_content ?? ''}${one.tool_calls ? called : (one.content ?? '')}`
  const turns = messages.map((one) => `\n${one.role}: ${said(one)}`)
  if (!habits.keepsPrefixes && messages.length > 1) turns[0] = '\nuser: (earlier turns)'
  const isQuestion = messages.at(-1)?.content?.includes('read_note') ?? false
  const isVaried = habits.heedsTemperature && temperature > 0
  const text = isQuestion && habits.callsTool ? called : `letters ${isVaried ? n : 0}`
  const isLeft =
    habits.tools === 'left in the text' ||
    (habits.tools === 'left in the text of streams' && body['stream'] === true)
  const isCall = text === called && !isLeft
  const { thinksIn } = habits
  const thinking = thinksIn === undefined ? '' : 'hm, '
  const scale = habits.scalesLogprobs ? Math.max(temperature, 0.1) : 1
  // As in vLLM, the token that was drawn stands before the most likely one.
  const logprob = {
    logprob: -1,
    top_logprobs: [
      { token: 'b', logprob: -9 - (n % 2) },
      { token: 'a', logprob: -1 / scale },
    ],
  }
  const draws = habits.drawsAsStated ? {} : { temperature: 0.6 }
  const drawn = body['top_logprobs'] === 20 ? drawLetters(64, draws, randomOf(n)) : undefined
  const tokens: readonly Token[] =
    drawn?.map((one, id) => ({ id, delta: { content: 'x' }, part: 'text', logprob: one })) ??
    [
      ...Array.from(thinking, (letter) => ({ letter, part: 'thinking' as const })),
      ...Array.from(text, (letter) => ({
        letter,
        part: isCall ? ('call' as const) : ('text' as const),
      })),
    ].map(({ letter, part }, at, { length }) => ({
      id: letter.codePointAt(0) ?? 0,
      part,
      logprob,
      delta:
        part === 'thinking'
          ? { [thinksIn ?? '']: letter }
          : part === 'text'
            ? { content: letter }
            : at === length - 1
              ? { tool_calls: [{ index: 0, ...call }] }
              : {},
    }))
  return {
    promptIds: idsOf(`${turns.join('')}\nassistant: `),
    tokens,
    message: {
      role: 'assistant',
      content: isCall ? null : text,
      ...(thinksIn !== undefined && { [thinksIn]: thinking }),
      ...(isCall && { tool_calls: [call] }),
    },
  }
}

function usageOf({ promptIds, tokens }: Said): object {
  const counts = { prompt_tokens: promptIds.length, completion_tokens: tokens.length }
  return { usage: { ...counts, total_tokens: promptIds.length + tokens.length } }
}

function writeWhole(
  response: ServerResponse,
  said: Said,
  { ids, logprobs, headers }: Habits,
): void {
  const { tokens, promptIds, message } = said
  const choice = {
    index: 0,
    message,
    ...(ids !== 'none' && { token_ids: tokens.map(({ id }) => id) }),
    ...(logprobs === 'all' && { logprobs: { content: tokens.map(({ logprob }) => logprob) } }),
    finish_reason: 'stop',
  }
  const body = {
    id: 'a1',
    object: 'chat.completion',
    ...(ids !== 'none' && { prompt_token_ids: promptIds }),
    choices: [choice],
    ...usageOf(said),
  }
  response
    .writeHead(200, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(body))
}

function writeStream(response: ServerResponse, said: Said, habits: Habits): void {
  const { ids, logprobs, streamLoses, streams, headers } = habits
  const { tokens, promptIds } = said
  const hasIds = ids === 'all'
  response.writeHead(200, { 'content-type': 'text/event-stream', ...headers })
  const send = (chunk: object): void => {
    const whole = { id: 'a1', object: 'chat.completion.chunk', ...chunk }
    response.write(`data: ${JSON.stringify(whole)}\n\n`)
  }
  send({
    choices: [{ index: 0, delta: { role: 'assistant' } }],
    ...(hasIds && { prompt_token_ids: promptIds }),
  })
  for (const { id, delta, part, logprob } of tokens) {
    // A parser that waits for the end of a call sends nothing until then.
    const isHeldBack = streamLoses === 'tokens of calls' && Object.keys(delta).length === 0
    if (isHeldBack) continue
    const hasLogprob =
      logprobs === 'all' && !(streamLoses === 'logprobs of thinking' && part === 'thinking')
    const choice = {
      index: 0,
      delta,
      ...(hasIds && { token_ids: [id] }),
      ...(hasLogprob && { logprobs: { content: [logprob] } }),
    }
    send({ choices: [choice] })
  }
  if (streams === 'breaks off') {
    response.end()
    return
  }
  send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
  if (streams !== 'without usage') send({ choices: [], ...usageOf(said) })
  response.end('data: [DONE]\n\n')
}

/** Answers a request as a server with these habits does; `n` counts its answers. */
export function serveAs(
  changed: Partial<Habits>,
): (request: Pick<Received, 'body'>, response: ServerResponse) => void {
  const habits = { ...usual, ...changed }
  let n = 0
  return ({ body }, response) => {
    n += 1
    const { refuses, tools, streams } = habits
    if (refuses !== undefined && body[refuses] !== undefined) {
      refuse(response, 400, `Unrecognized request argument supplied: ${refuses}`)
    } else if (tools === 'refused' && body['tools'] !== undefined) {
      refuse(response, 400, '"auto" tool choice requires --enable-auto-tool-choice')
    } else if (body['stream'] === true && streams === 'refused') {
      refuse(response, 400, 'streaming is not supported')
    } else if (
      streams === 'no logprobs with tools' &&
      [body['stream'], body['tools'], body['logprobs']].every(Boolean)
    ) {
      refuse(response, 400, 'logprobs is not supported with tools + stream')
    } else if (body['stream'] === true && streams !== 'no, one object') {
      writeStream(response, answerTo(body, habits, n), habits)
    } else writeWhole(response, answerTo(body, habits, n), habits)
  }
}
