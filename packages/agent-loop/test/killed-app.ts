import {
  post,
  startServerProcess,
  type FakeTrainer,
  type TestServerProcess,
} from '../../../test/kit/index.ts'

export const restarted =
  'the rollout server restarted while the rollout was running; run it again under a new id'

export async function startChild(outboxDir: string): Promise<TestServerProcess> {
  const script = new URL('./child-app.ts', import.meta.url)
  return startServerProcess(script, { OUTBOX_DIR: outboxDir })
}

export async function init(
  { url }: { readonly url: string },
  body: Record<string, unknown>,
): Promise<unknown> {
  const answer = await post(`${url}/v1/rollout/init`, body)
  return [answer.status, await answer.json()]
}

/** The bodies that the trainer received for a rollout: each different one once. */
export function receivedBodies({ completed }: FakeTrainer, rolloutId: string): string[] {
  const ends = completed
    .filter(({ body }) => body['rollout_id'] === rolloutId)
    .map(({ body }) => body as { status: string; error_message?: string })
    .map(({ status, error_message = '' }) => `${status} ${error_message}`.trim())
  return [...new Set(ends)]
}
