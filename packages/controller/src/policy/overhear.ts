import { errorMessage } from '@osmosis/core'
import { PassingAnswer, type AnswerListener } from '@osmosis/core/policy'

import type { PolicyModel, PolicyRequest } from './policy-model.ts'

/** Hears how one model call went. One of the last three is called, once. */
export interface CallListener extends AnswerListener {
  /** The policy did not answer but refuse; `text` is the beginning of what it said. */
  onRefusal(status: number, text: string): void
}

const longestText = 2000

/**
 * Lets `listen` hear the model calls of a policy; undefined for a call that is of no interest. Answers
 * reach their callers byte for byte, and are heard before their end is. Whoever made `policy` still
 * closes it.
 */
export function overhear(
  policy: PolicyModel,
  listen: (request: PolicyRequest) => CallListener | undefined,
): PolicyModel {
  return {
    name: policy.name,
    async respond(request) {
      const listener = listen(request)
      if (listener === undefined) return policy.respond(request)
      let answer: Response
      try {
        answer = await policy.respond(request)
      } catch (error) {
        // That nobody waits any longer says nothing about the policy.
        if (request.signal.aborted) listener.onBroken(errorMessage(error))
        else listener.onRefusal(500, errorMessage(error))
        throw error
      }
      const { status, headers } = answer
      const heard = answer.ok
        ? new PassingAnswer(headers.get('content-type') ?? '', listener)
        : new PassingRefusal((text) => listener.onRefusal(status, text))
      if (answer.body === null) heard.end()
      const body = answer.body && ReadableStream.from(passing(answer.body, heard))
      return new Response(body, { status, headers })
    },
  }
}

type Heard = Pick<PassingAnswer, 'add' | 'end' | 'breakOff'>

async function* passing(
  bytes: AsyncIterable<Uint8Array>,
  heard: Heard,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of bytes) {
      heard.add(piece)
      yield piece
    }
    heard.end()
  } catch (error) {
    heard.breakOff(`The answer of the policy broke off: ${errorMessage(error)}`)
    throw error
  } finally {
    // Of no effect unless the caller has gone away.
    heard.breakOff('The agent did not read the answer to its end.')
  }
}

/** An answer with an error status, as text. */
class PassingRefusal implements Heard {
  readonly #report: (text: string) => void
  readonly #decoder = new TextDecoder()
  #text = ''
  #over = false

  constructor(report: (text: string) => void) {
    this.#report = report
  }

  add(piece: Uint8Array): void {
    if (this.#text.length < longestText) this.#text += this.#decoder.decode(piece, { stream: true })
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    this.#report(this.#text.slice(0, longestText))
  }

  breakOff(): void {
    this.end()
  }
}
