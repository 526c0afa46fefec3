import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import {
  AgentWorkflow,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  type EgressOptions,
  Grader,
  type GraderClass,
  type GraderContext,
  type GroupGraderClass,
  LocalBackend,
  requireRolloutContext,
  toRolloutSample,
} from '@osmosis/core'
import {
  createRolloutServer,
  type HttpLimits,
  type RolloutServer,
  type RolloutServerOptions,
  serve,
} from '@osmosis/server'

import { FakeController, post, recordingLogger, type LogLine } from '@osmosis/testing/kit'

/** Everything a test talks to; leaving the block ends it all. */
export interface RunningServer extends AsyncDisposable {
  readonly controller: FakeController
  readonly server: RolloutServer
  readonly url: string
  readonly log: LogLine[]
  /** Where its rollouts keep files. */
  readonly artifactRoot: string
  /** Sends the controller's rollout body, with these keys changed. */
  post(overrides?: Record<string, unknown>, headers?: Record<string, string>): Promise<Response>
}

export interface RunningServerOptions extends Partial<RolloutServerOptions> {
  workflow?: AgentWorkflowClass
  grader?: GraderClass | GroupGraderClass | null
  maxConcurrent?: number
  maxQueueDepth?: number
  egress?: EgressOptions | undefined
  limits?: HttpLimits
  /** Default: a folder that ends with the server. */
  artifactRoot?: string
}

/** A real server on a free port, in front of a fake controller. */
export async function startServer(options: RunningServerOptions = {}): Promise<RunningServer> {
  const {
    workflow,
    grader,
    maxConcurrent,
    maxQueueDepth,
    egress,
    limits,
    artifactRoot: _,
    ...serverOptions
  } = options
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-test-'))
  const artifactRoot = options.artifactRoot ?? folder
  const controller = await new FakeController().start()
  const log: LogLine[] = []
  const server = createRolloutServer({
    backend: new LocalBackend({
      workflow: workflow ?? AskOnce,
      grader: grader === null ? undefined : (grader ?? OneForYes),
      maxConcurrent,
      maxQueueDepth,
      egress,
      artifactRoot,
    }),
    callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
    shutdownGraceSeconds: 1,
    logger: recordingLogger(log),
    ...serverOptions,
  })
  const listening = await serve(server, { port: 0, handleSignals: false, limits })
  return {
    controller,
    server,
    url: listening.url,
    log,
    artifactRoot,
    post: (overrides, headers) =>
      post(`${listening.url}/rollout`, controller.rolloutBody(overrides), headers),
    async [Symbol.asyncDispose]() {
      await listening.close({ waitSeconds: 0 })
      await controller[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

/** Registers a conversation of two messages, and has the policy say the second one. */
export async function askPolicy(ctx: AgentWorkflowContext, sampleId = 'main'): Promise<void> {
  const context = requireRolloutContext('askPolicy')
  const messages: unknown[] = [...ctx.prompt]
  context.registerSampleSource(sampleId, {
    getSample: (id) => toRolloutSample({ id, messages }),
  })
  const answer = await context.policy(sampleId).complete({ messages: [...ctx.prompt] as never })
  messages.push({ role: 'assistant', content: answer.choices[0]?.message.content })
}

export class AskOnce extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await askPolicy(ctx)
  }
}

export class OneForYes extends Grader {
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

/** A grader class that does what `grade` does. */
export function graderOf(grade: (ctx: GraderContext) => unknown): GraderClass {
  return class extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      await grade(ctx)
    }
  }
}
