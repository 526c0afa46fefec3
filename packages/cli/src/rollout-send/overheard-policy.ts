import type { PolicyModel } from '@osmosis/controller'

type Message = Readonly<Record<string, unknown>>

/** Hears what agents and the policy say to one another, as it is said. */
export interface PolicyListener {
  /** The whole conversation that a model call carries. */
  onCall(sampleId: string, messages: readonly Message[]): void
  /** The answer to it; `messages` ends with that. */
  onAnswer(sampleId: string, messages: readonly Message[]): void
  /** An answer that is none. */
  onRefusal(status: number, text: string): void
}

/** Lets a listener hear the model calls of a policy. Answers reach their callers byte for byte. */
export function overheard(policy: PolicyModel, listener: PolicyListener): PolicyModel {
  return {
    name: policy.name,
    async respond(request) {
      const { sampleId, body } = request
      const asked: unknown = body['messages']
      const messages = Array.isArray(asked) ? (asked as Message[]) : []
      listener.onCall(sampleId, messages)
      const answer = await policy.respond(request)
      const { status, headers } = answer
      return new Response(
        whenRead(answer, (text) => {
          const message = status === 200 ? answerIn(text) : undefined
          if (message === undefined) listener.onRefusal(status, text)
          else listener.onAnswer(sampleId, [...messages, message])
        }),
        { status, headers },
      )
    },
  }
}

/** The body of an answer; `heard` gets the text of it before its reader learns of the end. */
function whenRead(
  { body }: Response,
  heard: (text: string) => void,
): ReadableStream<Uint8Array> | null {
  const parts: Uint8Array[] = []
  const copying = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      parts.push(part)
      controller.enqueue(part)
    },
    flush: () => heard(Buffer.concat(parts).toString('utf8')),
  })
  return body?.pipeThrough(copying) ?? null
}

/** The message in an answer, whole or streamed; undefined for what is no answer. */
function answerIn(text: string): Message | undefined {
  try {
    if (!/^\s*(data|event|id|retry)?:/.test(text)) {
      return (JSON.parse(text) as { choices?: { message?: Message }[] }).choices?.[0]?.message
    }
    const chunks = text
      .split(/\r?\n/)
      .filter((line) => line.startsWith('data:') && line.slice(5).trim() !== '[DONE]')
      .map((line) => JSON.parse(line.slice(5)) as Chunk)
    return joined(chunks.map(({ choices }) => choices?.[0]?.delta ?? {}))
  } catch {
    // Whatever it is, the agent gets it as it came, and reports it if it is an error.
    return undefined
  }
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: Delta }[]
}

interface Delta {
  readonly content?: string | null
  readonly tool_calls?: readonly {
    readonly index?: number
    readonly id?: string
    readonly function?: { readonly name?: string; readonly arguments?: string }
  }[]
}

function joined(deltas: readonly Delta[]): Message {
  const content = deltas.map((delta) => delta.content ?? '').join('')
  const calls = new Map<number, { id: string; function: { name: string; arguments: string } }>()
  for (const { index = 0, id, function: part } of deltas.flatMap(
    (delta) => delta.tool_calls ?? [],
  )) {
    const call = calls.get(index) ?? { id: id ?? '', function: { name: '', arguments: '' } }
    call.function.name += part?.name ?? ''
    call.function.arguments += part?.arguments ?? ''
    calls.set(index, call)
  }
  const message = { role: 'assistant', content: content === '' && calls.size > 0 ? null : content }
  return calls.size === 0 ? message : { ...message, tool_calls: [...calls.values()] }
}
