import {
  createQueueServer,
  startRolloutWorker,
  type QueueConnectionOptions,
  type QueueServerOptions,
} from '@osmosis/bullmq'
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
import { serve, type RolloutServer } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { onTestFinished } from 'vitest'

import {
  FakeController,
  LeaseClient,
  LeaseHandle,
  post,
  recordingLogger,
  startRedis,
  type LogLine,
  type RedisServer,
} from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import { code } from './user-code.ts'

/** A server of a queue, as its callers see it. */
export interface ServerUnderTest {
  readonly url: string
  readonly server: RolloutServer
  readonly queue: RolloutQueue
  readonly log: LogLine[]
  /** The controller's rollout body, with these keys changed. */
  body(overrides?: Record<string, unknown>): Record<string, unknown>
  /** Sends such a body. */
  post(overrides?: Record<string, unknown>): Promise<Response>
  /** Starts a leased rollout on this server. */
  start(overrides?: Record<string, unknown>): Promise<LeaseHandle>
  /** The same lease on this server. */
  handle(lease: LeaseHandle): LeaseHandle
  get(path: string): Promise<unknown>
  close(): Promise<void>
}

export interface ServersOptions extends Partial<QueueServerOptions> {
  workflow?: AgentWorkflowClass
  grader?: GraderClass | null
  /** Default: 1; 0 leaves everything queued. */
  workers?: number
  /** Concurrency of each worker; default: 100. */
  concurrency?: number
  connection?: Partial<QueueConnectionOptions>
  /** Whether Redis survives being killed; default: false. */
  aof?: boolean
}

export interface ServersUnderTest {
  readonly redis: RedisServer
  readonly controller: FakeController
  readonly a: ServerUnderTest
  readonly b: ServerUnderTest
  /** Starts another server. */
  readonly startServer: (options?: Partial<QueueServerOptions>) => Promise<ServerUnderTest>
  /** Starts another worker. */
  readonly worker: () => Promise<void>
}

/** Two servers and a worker on one queue, with their own Redis and a controller; all are closed after the test. */
export async function startServers(options: ServersOptions = {}): Promise<ServersUnderTest> {
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
  const startServer = async (more: Partial<QueueServerOptions> = {}): Promise<ServerUnderTest> => {
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
  const [a, b] = await Promise.all([startServer(), startServer()])
  for (let n = 0; n < workers; n += 1) await worker()
  return { redis, controller, a, b, startServer, worker }
}

/** Registers a conversation of two messages, the second of which is the policy's answer. */
export async function askPolicy(ctx: AgentWorkflowContext, sampleId = 'main'): Promise<void> {
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

/** A workflow class with this `run`. */
export function workflowOf(run: (ctx: AgentWorkflowContext) => unknown): AgentWorkflowClass {
  return class extends AgentWorkflow {
    async run(ctx: AgentWorkflowContext): Promise<void> {
      await run(ctx)
    }
  }
}
