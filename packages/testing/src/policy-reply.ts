import type { ScriptedAnswer } from '@osmosis/controller'

/** Parts of a stream that real endpoints leave out. */
export type OmittedPart =
  /** The chunk with the role. */
  | 'role'
  /** The usage, which the request wants included. */
  | 'usage'
  /** The closing `data: [DONE]`. */
  | 'done'
  /** The chunk with the finish reason. */
  | 'finish'
  /** Every `index`, of choices and tool calls; each tool call then comes in one piece. */
  | 'index'
  /** The `id` of every tool call. */
  | 'toolCallIds'

/** The faults of an answer. They can be combined, unless one prevents the other. */
export interface Faults {
  /** One JSON object, although the request wants a stream. */
  readonly json?: boolean
  /** Exactly this text as the event stream, instead of the answer. */
  readonly raw?: string
  readonly omit?: readonly OmittedPart[]
  /** The whole answer in a single chunk, without a role. */
  readonly oneFatChunk?: boolean
  /** Half of the content, then `event: error` with `data: {"error":"…"}`, then `[DONE]`. */
  readonly errorEvent?: string
  /** Half of the content, then `data: {"error":{"message":"…"}}`, then `[DONE]`. */
  readonly errorData?: string
  /** `: ping` comments before every event. */
  readonly comments?: boolean
  /** CRLF line ends. */
  readonly crlf?: boolean

  /** The socket is destroyed before anything is answered. */
  readonly cutBeforeHeaders?: boolean
  /** Before the headers. Milliseconds. */
  readonly delayMs?: number
  /** Between the headers and the first byte of the body. Milliseconds. */
  readonly delayFirstByteMs?: number
  /** The answer hangs before the headers, or after the headers and the first event. */
  readonly hang?: 'headers' | 'body'
  /** The body is written in pieces of this many bytes, each flushed separately. */
  readonly chunkBytes?: number
  /** The socket is destroyed after this many bytes of the body. */
  readonly cutAfterBytes?: number
  /** The body ends after this many bytes; for HTTP, it is complete. */
  readonly endAfterBytes?: number
}

/** An answer with something wrong. */
export interface FaultyReply {
  readonly answer: ScriptedAnswer
  readonly faults: Faults
}

/** An answer other than a completion. */
export interface StatusReply {
  readonly status: number
  /** By lower-case name; `content-type` is `application/json` unless given. */
  readonly headers: Readonly<Record<string, string>>
  /** Text is sent unchanged, anything else as JSON. */
  readonly body: unknown
}

/** What a policy server does with one request. */
export type Reply = ScriptedAnswer | FaultyReply | StatusReply

/** Replies that are not simply an answer. */
export const fault = {
  /** An error status; the body defaults to an OpenAI-style error. */
  status(
    status: number,
    options: { headers?: Readonly<Record<string, string>>; body?: unknown } = {},
  ): StatusReply {
    const error = { message: `scripted status ${status}`, type: 'scripted_error', code: 'scripted' }
    return { status, headers: options.headers ?? {}, body: options.body ?? { error } }
  },
  /** An answer with something wrong. */
  on(answer: ScriptedAnswer, faults: Faults): FaultyReply {
    return { answer, faults }
  },
  /** No answer, or one that stops after its first event. */
  hang(where: 'headers' | 'body'): FaultyReply {
    return { answer: 'never heard', faults: { hang: where } }
  },
  /** Exactly this event stream. */
  raw(text: string): FaultyReply {
    return { answer: '', faults: { raw: text } }
  },
} as const
