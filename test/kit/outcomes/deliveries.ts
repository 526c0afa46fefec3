import { expect } from 'vitest'

import type { FakeController } from '../fake-controller.ts'
import { post } from '../http-calls.ts'
import { LeaseClient, LeaseHandle } from '../lease-client.ts'
import type { End, Graded, OutcomeCase } from './outcome-cases.ts'

type Fields = Readonly<Record<string, unknown>>

/** One way to send a rollout and to receive its outcome. */
export interface DeliveryPath {
  /** Sends a rollout, which is accepted. The returned function waits for everything that its caller receives. */
  send(url: string, controller: FakeController, fields: Fields): Promise<Ended>
  /** What the caller of a rollout has to receive. */
  expected(rolloutId: string, row: OutcomeCase): unknown
  /** How the status route reports its outcome. */
  state(row: OutcomeCase): End | NonNullable<OutcomeCase['leased']>
}

/** @param url - the current URL of the server, which a restart changes */
type Ended = (url: string) => Promise<unknown>

export const deliveries: Readonly<Record<'callbacks' | 'a lease', DeliveryPath>> = {
  callbacks: {
    async send(url, controller, fields) {
      const body = controller.rolloutBody(fields)
      expect((await post(`${url}/rollout`, body)).status).toBe(202)
      return async () => {
        await controller.bodies(body['grader_callback_url'] === null ? 1 : 2)
        return controller.callbacks.map(({ kind, body: received }) => ({ kind, body: received }))
      }
    },
    expected(rollout_id, { completion, grader, lostWith: lost_with }) {
      const lost = lost_with === undefined ? null : { lost_with }
      const extra_fields = completion.status === 'failure' ? lost : null
      const first = { kind: 'completion', body: { rollout_id, ...completion, extra_fields } }
      if (grader === undefined) return [first]
      const { samples, ...end } = grader
      const named = Object.entries(samples).map(([id, sample]) => [id, { id, ...sample }] as const)
      const body = {
        rollout_id,
        ...end,
        samples: Object.fromEntries(named),
        sample: onlySample(grader),
        ...(lost === null ? {} : { extra_fields: lost }),
        ...callsOf(grader),
      }
      return [first, { kind: 'grader', body }]
    },
    state: ({ completion, grader, meanwhile }) => ({
      ...(grader ?? completion),
      ...(meanwhile === 'cancelled' ? { status: 'cancelled' } : {}),
    }),
  },

  'a lease': {
    async send(url, controller, fields) {
      const { completion_callback_url: _, ...body } = controller.rolloutBody(fields)
      const { accepted } = await new LeaseClient({ url }).start(body)
      return async (now) => {
        const handle = new LeaseHandle(new LeaseClient({ url: now }), accepted)
        const { text } = await handle.until()
        // A server that shuts down may exit once the caller has the result.
        const again = await handle.once().catch(() => undefined)
        if (again) expect(again.text).toBe(text)
        return JSON.parse(text) as unknown
      }
    },
    expected(rollout_id, row) {
      const { status, err_message, err_category } = this.state(row) as End
      const unrewarded = row.grader === undefined && row.completion.status === 'success'
      const sample = row.leased || row.grader === undefined ? null : onlySample(row.grader)
      return {
        rollout_id,
        status,
        err_message,
        err_category,
        sample: unrewarded ? (expect.objectContaining({ reward: null }) as unknown) : sample,
      }
    },
    state: ({ completion, grader, leased }) => ({ ...(grader ?? completion), ...leased }),
  },
}

/** The sample of a rollout that has one. */
export function onlySample({ samples }: Graded): Fields | null {
  const [sample, ...others] = Object.values(samples)
  return sample !== undefined && others.length === 0 ? sample : null
}

/** One for each sample of the table that was answered, by a policy that gives neither id nor model. */
function callsOf({ status, samples }: Graded): object {
  const call = {
    id: null,
    version: null,
    purpose: 'agent',
    trainable: true,
    sampling: {},
    step_reward: null,
  }
  const answered = Object.entries(samples).filter(([, { messages }]) => {
    return (messages as readonly { role: string }[]).some(({ role }) => role === 'assistant')
  })
  if (status !== 'success' || answered.length === 0) return {}
  return { extra_fields: { calls: Object.fromEntries(answered.map(([id]) => [id, [call]])) } }
}
