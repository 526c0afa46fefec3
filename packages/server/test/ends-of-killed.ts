import type { StatusResponseBody } from '@osmosis/protocol/wire'
import type { FakeController } from '../../../test/kit/index.ts'

export const running =
  'the rollout server restarted while the rollout was running; run it again under a new id'
export const grading =
  'the rollout server restarted while the rollout was being graded; run it again under a new id'

export interface TerminalBody {
  rollout_id: string
  status: string
  err_message: string | null
  err_category: string | null
  samples?: Record<string, unknown>
  sample?: { reward: number | null } | null
}

/** The callback bodies that a controller received for a rollout: each different one once, in order. */
export function receivedBodies(controller: FakeController, rolloutId: string): string[] {
  const ends = controller.callbacks
    .filter(({ body }) => (body as TerminalBody).rollout_id === rolloutId)
    .map(({ kind, body }) => {
      const { status, err_message, err_category, sample } = body as TerminalBody
      if (status === 'success') return `${kind} success ${sample?.reward ?? ''}`.trim()
      return `${kind} ${err_category} ${err_message}`
    })
  return [...new Set(ends)]
}

export const wholeEnds = {
  success: ['completion success', 'grader success 1'],
  'killed while running': [`completion agent_error ${running}`, `grader agent_error ${running}`],
  'killed while grading': ['completion success', `grader agent_error ${grading}`],
}

export async function statusOf({ url }: { url: string }, id: string): Promise<StatusResponseBody> {
  return (await fetch(`${url}/rollout/${id}/status`)).json() as Promise<StatusResponseBody>
}
