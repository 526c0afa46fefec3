import { EventEmitter, once } from 'node:events'

import { defineWorkflowConfig, requireRolloutContext } from '@osmosis/core'
import { createRolloutServer, serve } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'

import { AskOnce, graderOf, OneForYes, workflowOf } from './workflows.ts'

/**
 * A rollout server as a user's program has it, run by tests in a process of its own. The row's
 * metadata says how its workflow or grader misbehaves. Prints its URL when it listens.
 */
interface Misbehaviour {
  /** What it does to the process, see {@link harms}. */
  harm?: keyof typeof harms
  in?: 'workflow' | 'grader'
  /** Ends only when other rollouts have done this many harms. */
  outlasts?: number
  never?: true
}

interface Phase {
  readonly metadata: unknown
  readonly signal: AbortSignal
}

const harms = {
  exit: () => process.exit(0),
  timer: () => setTimeout(() => fail('thrown from a timer'), 1),
  emitter: () => {
    const emitter = new EventEmitter().on('event', () => fail('thrown from a listener'))
    setTimeout(() => emitter.emit('event'), 1)
  },
  rejection: () => void Promise.reject(new Error('forgotten await')),
  late: ({ signal }: Phase) => {
    signal.addEventListener('abort', () => setTimeout(() => fail('too late to matter'), 1))
    // So that the controller knows when it has started.
    const policy = requireRolloutContext('a late harm').policy('late')
    policy.complete({ messages: [] }).catch(() => undefined)
  },
}
const done = new EventEmitter().setMaxListeners(0)
let harmsDone = 0

function noteHarm(): void {
  harmsDone += 1
  done.emit('harm')
}

async function untilDone(count: number): Promise<void> {
  if (harmsDone >= count) return
  await once(done, 'harm')
  await untilDone(count)
}

async function misbehave(part: 'workflow' | 'grader', phase: Phase): Promise<void> {
  const { harm, in: harmful = 'workflow', outlasts, never } = (phase.metadata ?? {}) as Misbehaviour
  if (part !== harmful) return
  if (outlasts !== undefined) await untilDone(outlasts)
  if (harm) {
    phase.signal.addEventListener('abort', noteHarm)
    harms[harm](phase)
  }
  if (never) setInterval(() => undefined, 60_000)
  if (harm ?? never) await new Promise(() => undefined)
}

function fail(text: string): never {
  throw new Error(text)
}

// Code at the top of a user's module, which belongs to no rollout.
process.on('SIGUSR2', () => fail('thrown outside of rollouts'))
process.on('SIGHUP', () => void Promise.reject(new Error('rejected outside of rollouts')))

const server = createRolloutServer({
  backend: new LocalBackend({
    maxConcurrent: 1000,
    // Rollouts whose policy is down end soon.
    workflowConfig: defineWorkflowConfig({ name: 'child', policyLimits: { awaySeconds: 0 } }),
    workflow: workflowOf(async (ctx) => {
      await misbehave('workflow', ctx)
      await new AskOnce(undefined).run(ctx)
    }),
    grader: graderOf(async (ctx) => {
      await misbehave('grader', ctx)
      await new OneForYes(undefined).grade(ctx)
    }),
  }),
  trajectories: false,
  drainSeconds: Number(process.env['DRAIN_SECONDS'] ?? 30),
  outboxDir: process.env['OUTBOX_DIR'],
  shutdownGraceSeconds: 30,
  callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
})
const { url } = await serve(server, { port: 0 })
process.stdout.write(`${url}\n`)
