import {
  createApp,
  type AgentLoopApp,
  type CreateAppOptions,
  type RolloutAgentLoop,
} from '@osmosis/agent-loop'
import { serve } from '@osmosis/server'
import { expect } from 'vitest'

import { FakeTrainer, post, recordingLogger, type LogLine } from '../../../test/kit/index.ts'
import { answerOnce, loopOf } from './loops.ts'

export { answerOnce, loopOf } from './loops.ts'

/** Everything a test talks to; leaving the block ends it all. */
export interface RunningApp extends AsyncDisposable {
  readonly trainer: FakeTrainer
  readonly app: AgentLoopApp
  readonly url: string
  readonly log: LogLine[]
  /** Sends an init body that points to the trainer, with these keys changed. */
  init(overrides?: Record<string, unknown>, headers?: Record<string, string>): Promise<Response>
  readonly health: () => Promise<unknown>
}

export interface RunningAppOptions extends CreateAppOptions {
  loop?: RolloutAgentLoop
  /** Default: one that ends with the app. */
  trainer?: FakeTrainer
}

/** Retries come at once, and a refused delivery is not tried for minutes. */
const impatient = { retryBaseDelaySeconds: 0.1, retryMaxDelaySeconds: 1, completeRolloutRetries: 3 }

/** An app on a free port, in front of a fake trainer. */
export async function startApp(options: RunningAppOptions = {}): Promise<RunningApp> {
  const {
    loop = loopOf(answerOnce),
    trainer = await new FakeTrainer().start(),
    ...appOptions
  } = options
  const log: LogLine[] = []
  const app = createApp(loop, {
    shutdownGraceSeconds: 1,
    logger: recordingLogger(log),
    ...appOptions,
    settings: { ...appOptions.settings, client: { ...impatient, ...appOptions.settings?.client } },
  })
  const listening = await serve(app, { port: 0, handleSignals: false })
  return {
    trainer,
    app,
    url: listening.url,
    log,
    init: (overrides, headers) =>
      post(`${listening.url}/v1/rollout/init`, trainer.initBody(overrides), headers),
    health: async () => (await fetch(`${listening.url}/health`)).json(),
    async [Symbol.asyncDispose]() {
      await listening.close({ waitSeconds: 0 })
      if (options.trainer === undefined) await trainer[Symbol.asyncDispose]()
    },
  }
}

/** A tool call of the policy. */
export function toolCall(id: string, name: string, args: unknown = '{}'): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

/** The message with the result of a tool call. */
export function toolMessage(id: string, content: unknown): object {
  return { role: 'tool', content, tool_call_id: id }
}

/** The metrics of a rollout with these counts, whatever its latencies. */
export function metrics(counts: Record<string, number> = {}): unknown {
  return {
    total_latency_ms: expect.any(Number),
    llm_latency_ms: expect.any(Number),
    tool_latency_ms: expect.any(Number),
    num_llm_calls: 0,
    num_tool_calls: 0,
    prompt_tokens: 0,
    response_tokens: 0,
    max_context_tokens: 0,
    ...counts,
  }
}
