import {
  FakeController,
  post,
  startServerProcess,
  type TestServerProcess,
} from '../../../test/kit/index.ts'

/** A rollout server in a process of its own, see `child-server.ts`. */
export interface Child extends TestServerProcess {
  readonly controller: FakeController
  post(overrides?: Record<string, unknown>): Promise<Response>
}

export interface ChildOptions {
  drainSeconds?: number
  outboxDir?: string
  /** Where its rollouts come from; default: a new one that ends with the child. */
  controller?: FakeController
}

export async function startChild(options: ChildOptions = {}): Promise<Child> {
  const { drainSeconds = 30, outboxDir } = options
  const controller = options.controller ?? (await new FakeController().start())
  const child = await startServerProcess(new URL('./child-server.ts', import.meta.url), {
    DRAIN_SECONDS: String(drainSeconds),
    ...(outboxDir === undefined ? {} : { OUTBOX_DIR: outboxDir }),
  })
  return {
    ...child,
    controller,
    post: (overrides) => post(`${child.url}/rollout`, controller.rolloutBody(overrides)),
    async [Symbol.asyncDispose]() {
      await child.end()
      if (options.controller === undefined) await controller[Symbol.asyncDispose]()
    },
  }
}
