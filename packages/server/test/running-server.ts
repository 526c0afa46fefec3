import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import type {
  AgentWorkflowClass,
  EgressOptions,
  GraderClass,
  GroupGraderClass,
} from '@osmosis/core'
import {
  createRolloutServer,
  type HttpLimits,
  type RolloutServer,
  type RolloutServerOptions,
  serve,
} from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'

import { FakeController, post, recordingLogger, type LogLine } from '../../../test/kit/index.ts'
import { AskOnce, OneForYes } from './workflows.ts'

export { AskOnce, askPolicy, graderOf, OneForYes, workflowOf } from './workflows.ts'

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
  /** Default: one that ends with the server. */
  controller?: FakeController
  /** Default: any free one. */
  port?: number
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
    controller = await new FakeController().start(),
    port = 0,
    ...serverOptions
  } = options
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-test-'))
  const artifactRoot = options.artifactRoot ?? folder
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
  const listening = await serve(server, { port, handleSignals: false, limits })
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
      if (options.controller === undefined) await controller[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
