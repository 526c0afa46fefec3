import type { ServerResponse } from 'node:http'

import { HttpPeer, type PeerRequest } from './http-peer.ts'

/** How the trainer answers: a status, a JSON body with 200, or anything a response can do. */
export type LoopTrainerAnswer =
  | number
  | object
  | ((response: ServerResponse) => void | Promise<void>)

/** The trainer's side of the protocol: a policy and the `completed` route, both recorded. */
export class FakeTrainer extends HttpPeer {
  readonly chats: PeerRequest[] = []
  readonly completed: PeerRequest[] = []
  /** Answers of the next model calls; the text "ok" when used up. */
  readonly chatAnswers: LoopTrainerAnswer[] = []
  /** Answers of the next `completed` calls; {@link otherwise} when used up. */
  readonly completedAnswers: LoopTrainerAnswer[] = []
  otherwise: () => LoopTrainerAnswer = () => ({ status: 'ok' })
  /** Answers model calls when {@link chatAnswers} is empty. */
  policy: (request: PeerRequest) => LoopTrainerAnswer = () => said('ok')
  openChats = 0

  /** A body for `POST /v1/rollout/init` that points here. */
  initBody(overrides: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      rollout_id: 'r1',
      server_url: this.url,
      messages: [{ role: 'user', content: 'hi' }],
      completion_params: {},
      ...overrides,
    }
  }

  /** Resolves with the bodies of all `completed` calls, once there are at least `count`. */
  async results(count = 1): Promise<Record<string, unknown>[]> {
    await this.until(() => this.completed.length >= count)
    return this.completed.map(({ body }) => body)
  }

  protected override receive(request: PeerRequest, response: ServerResponse): void {
    if (request.path.endsWith('/v1/chat/completions')) {
      this.chats.push(request)
      this.openChats += 1
      response.on('close', () => {
        this.openChats -= 1
        this.wake()
      })
      answer(response, this.chatAnswers.shift() ?? this.policy(request))
    } else {
      this.completed.push(request)
      answer(response, this.completedAnswers.shift() ?? this.otherwise())
    }
    this.wake()
  }
}

function answer(response: ServerResponse, what: LoopTrainerAnswer): void {
  if (typeof what === 'function') what(response)
  else if (typeof what === 'number') response.writeHead(what).end('{"detail":"no"}')
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(what))
}

/** An answer of the policy that says `content`, and calls tools when there are any. */
export function said(content: string | null, toolCalls?: readonly object[]): object {
  return {
    choices: [
      {
        message: {
          role: 'assistant',
          content,
          ...(toolCalls ? { tool_calls: toolCalls } : {}),
        },
        finish_reason: toolCalls ? 'tool_calls' : 'stop',
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 },
  }
}

export const hang: LoopTrainerAnswer = () => undefined
export const reset: LoopTrainerAnswer = (response) => {
  response.socket?.destroy()
}
