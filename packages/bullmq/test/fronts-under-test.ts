import {
  AgentWorkflow,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  type GraderClass,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/runtime'
import {
  createQueueServer,
  startRolloutWorker,
  type QueueConnectionOptions,
  type QueueServerOptions,
} from '@osmosis/bullmq'
import { RolloutQueue } from '@osmosis/bullmq/records'
import { serve, type RolloutServer } from '@osmosis/server'
import {
  FakeController,
  LeaseClient,
  LeaseHandle,
  post,
  recordingLogger,
  startRedis,
  type LogLine,
  type RedisServer,
} from '@osmosis/testing/kit'
import { onTestFinished } from 'vitest'

import { code } from './front-code.ts'

/** A front of a queue, as its callers see it. */
export interface FrontUnderTest {
  readonly url: string
  readonly server: RolloutServer
  readonly queue: RolloutQueue
  readonly log: LogLine[]
  /** The controller's rollout body, with these keys changed. */
  body(overrides?: Record<string, unknown>): Record<string, unknown>
  /** Sends that. */
  post(overrides?: Record<string, unknown>): Promise<Response>
  /** Begins a leased rollout here. */
  start(overrides?: Record<string, unknown>): Promise<LeaseHandle>
  /** The same lease, held here. */
  handle(lease: LeaseHandle): LeaseHandle
  get(path: string): Promise<unknown>
  close(): Promise<void>
}

export interface FrontsOptions extends Partial<QueueServerOptions> {
  workflow?: AgentWorkflowClass
  grader?: GraderClass | null
  /** Default: 1; 0 leaves everything queued. */
  workers?: number
  /** Of each worker; default: 100. */
  concurrency?: number
  connection?: Partial<QueueConnectionOptions>
  /** Whether Redis survives being killed; default: false. */
  aof?: boolean
}

export interface FrontsUnderTest {
  readonly redis: RedisServer
  readonly controller: FakeController
  readonly a: FrontUnderTest
  readonly b: FrontUnderTest
  /** One more front. */
  readonly front: (options?: Partial<QueueServerOptions>) => Promise<FrontUnderTest>
  /** One more worker. */
  readonly worker: () => Promise<void>
}

/** Two fronts and a worker on one queue, in a Redis of its own, and a controller; they end with the test. */
export async function startFronts(options: FrontsOptions = {}): Promise<FrontsUnderTest> {
  const {
    workflow,
    grader,
    workers = 1,
    concurrency = 100,
    connection,
    aof,
    ...serverOptions
  } = options
  const redis = await startRedis({ aof: aof ?? false })
  const controller = await new FakeController().start()
  onTestFinished(async () => controller[Symbol.asyncDispose]())
  const open = async (): Promise<RolloutQueue> =>
    RolloutQueue.open({ url: redis.url, ...connection })
  const worker = async (): Promise<void> => {
    const backend = new LocalBackend({
      workflow: workflow ?? AskOnce,
      grader: grader === null ? undefined : (grader ?? OneForYes),
      maxConcurrent: 100,
    })
    const running = await startRolloutWorker({
      url: redis.url,
      ...connection,
      backend,
      code,
      concurrency,
      lockDurationMs: 10_000,
      stalledIntervalMs: 500,
    })
    onTestFinished(async () => {
      backend.shutdown()
      await running.close(AbortSignal.timeout(500))
    })
  }
  const front = async (more: Partial<QueueServerOptions> = {}): Promise<FrontUnderTest> => {
    const queue = await open()
    const log: LogLine[] = []
    const server = createQueueServer({
      queue,
      code,
      logger: recordingLogger(log),
      callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
      drainSeconds: 0,
      shutdownGraceSeconds: 0.1,
      lockDurationMs: 1_000,
      ...serverOptions,
      ...more,
    })
    const listening = await serve(server, { port: 0, handleSignals: false })
    const { url } = listening
    const close = async (): Promise<void> => {
      await listening.close()
      await queue.close()
    }
    onTestFinished(close)
    return {
      url,
      server,
      queue,
      log,
      body: (overrides) => controller.rolloutBody(overrides),
      post: async (overrides) => post(`${url}/rollout`, controller.rolloutBody(overrides)),
      async start(overrides) {
        const { completion_callback_url: _, ...body } = controller.rolloutBody(overrides)
        return new LeaseClient({ url }).start(body)
      },
      handle: ({ accepted }) => new LeaseHandle(new LeaseClient({ url }), accepted),
      get: async (path) => (await fetch(`${url}${path}`)).json(),
      close,
    }
  }
  const [a, b] = await Promise.all([front(), front()])
  for (let n = 0; n < workers; n += 1) await worker()
  return { redis, controller, a, b, front, worker }
}

/** Registers a conversation of two messages, and has the policy say the second one. */
async function askPolicy(ctx: AgentWorkflowContext, sampleId = 'main'): Promise<void> {
  const context = requireRolloutContext('askPolicy')
  const messages: unknown[] = [...ctx.prompt]
  context.registerSampleSource(sampleId, { getSample: (id) => toRolloutSample({ id, messages }) })
  const answer = await context.policy(sampleId).complete({ messages: [...ctx.prompt] as never })
  messages.push({ role: 'assistant', content: answer.choices[0]?.message.content })
}

class AskOnce extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await askPolicy(ctx)
  }
}

class OneForYes extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const id of ctx.samples.keys()) ctx.setSampleReward(id, 1)
  }
}

/** A workflow class that does what `run` does. */
export function workflowOf(run: (ctx: AgentWorkflowContext) => unknown): AgentWorkflowClass {
  return class extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      await run(ctx)
    }
  }
}
