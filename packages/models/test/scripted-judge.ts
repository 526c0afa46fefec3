import { once } from 'node:events'

import {
  AgentWorkflow,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { ChatModel } from '@osmosis/models'
import { LocalBackend } from '@osmosis/server/execution'

import { grader, run, type ExecutedRollout } from '../../../test/kit/executed-rollouts.ts'
import {
  answerStream,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
} from '../../../test/kit/index.ts'

export interface JudgeRequest {
  readonly messages: ChatMessage[]
  readonly [name: string]: unknown
}

type Reply = string | { readonly status: number; readonly message: string }

/** A judge with these replies, one after the other; the last one is repeated. */
export function judgeThat(
  ...replies: readonly Reply[]
): ChatModel & { readonly requests: JudgeRequest[] } {
  const requests: JudgeRequest[] = []
  return {
    name: 'judge',
    requests,
    async respond({ body }) {
      requests.push(body as unknown as JudgeRequest)
      const reply = replies[Math.min(requests.length, replies.length) - 1] ?? ''
      if (typeof reply !== 'string') {
        return Response.json({ error: { message: reply.message } }, { status: reply.status })
      }
      return Response.json({ choices: [{ message: { role: 'assistant', content: reply } }] })
    },
  }
}

/** A judge that never replies, and whether nobody waits for it. */
export function silentJudge(): ChatModel & { readonly signals: AbortSignal[] } {
  const signals: AbortSignal[] = []
  return {
    name: 'silent',
    signals,
    respond: async ({ signal }) => {
      signals.push(signal)
      await once(signal, 'abort')
      throw signal.reason
    },
  }
}

export function textOf(message: ChatMessage | undefined): string {
  return typeof message?.content === 'string' ? message.content : ''
}

/** The word that delimits the parts of a request. */
export function secretOf(messages: readonly ChatMessage[]): string {
  return /carries the word (\w{32})/.exec(textOf(messages[0]))?.[1] ?? 'none'
}

class Greeter extends AgentWorkflow {
  async run({ prompt }: AgentWorkflowContext): Promise<unknown> {
    const policy = requireRolloutContext('Greeter').policy('sample')
    const { choices } = await policy.complete({ messages: [...prompt] })
    return [...prompt, choices[0]?.message]
  }
}

/** Grades a rollout whose policy says `Hello`. */
export async function gradedHello(
  grade: (ctx: GraderContext) => Promise<void>,
): Promise<Pick<ExecutedRollout, 'grading'> & { readonly policy: TestPolicyEndpoint }> {
  const policy = await startPolicyEndpoint((response) =>
    sendStream(response, answerStream('Hello')),
  )
  const backend = new LocalBackend({ workflow: Greeter, grader: grader(grade) })
  const { grading } = await run(backend, { chatCompletionsUrl: policy.url, apiKey: 'policy-key' })
  return { grading, policy }
}
