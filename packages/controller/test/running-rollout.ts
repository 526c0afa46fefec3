import {
  type Controller,
  createController,
  type PolicyModel,
  type RolloutOutcome,
} from '@osmosis/controller'

import { grade, type Order, startRolloutServer } from './fake-rollout-server.ts'

export interface RunningRollout extends AsyncDisposable {
  controller: Controller
  order: Order
  /** Ends the rollout and gives its result. */
  end(): Promise<RolloutOutcome>
}

/** A rollout that waits for model calls, with a policy behind its endpoint. */
export async function startRollout(
  policy: PolicyModel,
  order: { timeoutMs?: number; rolloutId?: string; signal?: AbortSignal } = {},
): Promise<RunningRollout> {
  const { signal, ...limits } = order
  const server = await startRolloutServer()
  const controller = await createController({
    policy,
    server: { url: server.url },
    callbackToken: 'callback-token',
    policyToken: 'policy-token',
  })
  const running = controller.run(
    { initialMessages: [], ...limits },
    signal === undefined ? {} : { signal },
  )
  // A test that never ends its rollout closes the controller, which rejects this.
  running.catch(() => {})
  const received = await server.order(0)
  return {
    controller,
    order: received,
    end: async () => {
      await grade(received)
      return running
    },
    [Symbol.asyncDispose]: async () => {
      await controller.close()
      await server[Symbol.asyncDispose]()
    },
  }
}
