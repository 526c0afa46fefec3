import { RolloutContext } from '@osmosis/core'
import { createPolicyProxy, type PolicyProxy, type PolicyProxyOptions } from '@osmosis/proxy'
import { onTestFinished } from 'vitest'

import {
  answerStream,
  sendStream,
  startPolicyEndpoint,
  type TestPolicyEndpoint,
} from '../../../test/kit/index.ts'

type Respond = Parameters<typeof startPolicyEndpoint>[0]

export interface ProxiedRollout {
  readonly policy: TestPolicyEndpoint
  readonly rollout: RolloutContext
  readonly proxy: PolicyProxy
  /** Ends the rollout. */
  readonly over: AbortController
}

/** A rollout on an endpoint that answers like this, and where its policy is served. */
export async function proxied(
  respond: Respond,
  options?: (rollout: RolloutContext) => PolicyProxyOptions,
): Promise<ProxiedRollout> {
  const policy = await startPolicyEndpoint(respond)
  const over = new AbortController()
  const rollout = new RolloutContext({
    rolloutId: 'r',
    chatCompletionsUrl: policy.url,
    apiKey: 'key',
    signal: over.signal,
  })
  const proxy = await rollout.run(async () =>
    createPolicyProxy(rollout.registerPolicySample('main'), options?.(rollout)),
  )
  onTestFinished(() => proxy.close())
  return { policy, rollout, proxy, over }
}

/** A rollout whose policy gives these answers, one after the other. */
export async function answering(
  answers: readonly (string | Record<string, unknown>)[],
  options?: (rollout: RolloutContext) => PolicyProxyOptions,
): Promise<ProxiedRollout> {
  return proxied(
    (response, n) => sendStream(response, answerStream(answers[n - 1] ?? 'no more answers')),
    options,
  )
}

export function post(body: unknown, headers: Record<string, string> = {}): RequestInit {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  }
}

/** The body of an answer. */
export async function json<T = Record<string, unknown>>(answer: Promise<Response>): Promise<T> {
  return (await (await answer).json()) as T
}

/** The data of server-sent events. */
export async function events(answer: Promise<Response>): Promise<Record<string, unknown>[]> {
  const text = await (await answer).text()
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? []
      const body = JSON.parse(data ?? 'null') as Record<string, unknown>
      if (body['type'] !== name) throw new Error(`an event of another name: ${event}`)
      return body
    })
}

/** A tool call as the policy writes it. */
export function toolCall(id: string, name: string, args: string): Record<string, unknown> {
  return { id, type: 'function', function: { name, arguments: args } }
}

/** The body of the first request to the policy. */
export function sentTo({ requests }: TestPolicyEndpoint): Record<string, unknown> {
  return { ...requests[0]?.body }
}
