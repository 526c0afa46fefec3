import { RolloutContext, toRolloutSample, type RolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import {
  readTrajectoryReport,
  toTrajectories,
  validateTrajectory,
  type EndedRollout,
  type Trajectory,
} from '@osmosis/protocol/trajectory'
import { expect } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../../../../test/kit/index.ts'

export const user = (content: string): ChatMessage => ({ role: 'user', content })

/** An ended rollout with these fields changed. */
export function ended(overrides: Partial<EndedRollout> = {}): EndedRollout {
  return {
    rolloutId: 'r1',
    initialMessages: [user('go')],
    label: null,
    metadata: null,
    extraFields: null,
    samples: new Map(),
    failures: [],
    warnings: [],
    report: null,
    ...overrides,
  }
}

/** A sample with only messages. */
export function sampleOf(...messages: unknown[]): RolloutSample {
  return toRolloutSample({ id: 'main', messages })
}

export function samples(...all: RolloutSample[]): Map<string, RolloutSample> {
  return new Map(all.map((sample) => [sample.id, sample]))
}

/** A report as it comes in an acknowledgement. */
export function report(trajectory: unknown): EndedRollout['report'] {
  return readTrajectoryReport(JSON.stringify({ trajectory }))
}

/** The documents of a rollout, which must be valid. */
export function documentsOf(rollout: EndedRollout): Trajectory[] {
  const documents = toTrajectories(rollout).map(({ trajectory }) => trajectory)
  for (const document of documents) expect(validateTrajectory(document)).toEqual([])
  return documents
}

export function documentOf(rollout: EndedRollout): Trajectory {
  const [only, ...others] = documentsOf(rollout)
  if (only && others.length === 0) return only
  throw new Error(`expected one document, got ${others.length + 1}`)
}

/** Asks a policy that gives these answers one after another. */
export async function conversation(
  answers: readonly Record<string, unknown>[],
  between: readonly (readonly ChatMessage[])[] = [],
): Promise<RolloutSample> {
  const { url } = await startPolicyEndpoint((response, n) => {
    const { status = 200, ...body } = answers[n - 1] ?? {}
    sendJson(response, status as number, body)
  })
  const rollout = new RolloutContext({ rolloutId: 'r1', chatCompletionsUrl: url })
  rollout.registerSampleSource('main', { getSample: (id) => toRolloutSample({ id, messages: [] }) })
  let messages = [user('q1')]
  for (const turn of answers.keys()) {
    const given = await rollout
      .policy('main')
      .complete({ messages }, { retries: 0 })
      .catch(() => undefined)
    const said = given?.choices[0]?.message
    messages = [...messages, ...(said ? [said] : []), ...(between[turn] ?? [])]
  }
  const sample = (await rollout.getSamples()).get('main')
  if (sample) return sample
  throw new Error('there is no sample')
}

/** An answer of the policy, as of an endpoint that does not stream. */
export function answer(
  message: Record<string, unknown>,
  rest: Record<string, unknown> = {},
  choice: Record<string, unknown> = {},
): Record<string, unknown> {
  const said = { role: 'assistant', content: null, ...message }
  return {
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'policy-7',
    choices: [{ index: 0, message: said, finish_reason: 'stop', logprobs: null, ...choice }],
    ...rest,
  }
}
