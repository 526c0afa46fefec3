import { EventEmitter, once } from 'node:events'

import { createApp } from '@osmosis/agent-loop'
import { serve } from '@osmosis/server'

import { answerOnce, loopOf } from './loops.ts'

/**
 * A loop as a user's program serves it, run by tests in a process of its own. The metadata of a
 * rollout says how the loop misbehaves: what it does to the process, or how many
 * of these it outlasts. Prints its URL when it listens.
 */
const harms: Record<string, () => unknown> = {
  exit: () => process.exit(0),
  timer: () => setTimeout(() => fail('thrown from a timer'), 1),
  emitter: () => {
    const emitter = new EventEmitter().on('event', () => fail('thrown from a listener'))
    setTimeout(() => emitter.emit('event'), 1)
  },
  rejection: () => void Promise.reject(new Error('forgotten await')),
}
const done = new EventEmitter().setMaxListeners(0)
let harmsDone = 0

async function untilDone(count: number): Promise<void> {
  if (harmsDone >= count) return
  await once(done, 'harm')
  await untilDone(count)
}

const loop = loopOf(
  async (ctx) => {
    const { harm = '', outlasts } = ctx.request.metadata as { harm?: string; outlasts?: number }
    if (outlasts !== undefined) await untilDone(outlasts)
    const misbehave = harms[harm]
    if (misbehave) {
      ctx.signal.addEventListener('abort', () => {
        harmsDone += 1
        done.emit('harm')
      })
      misbehave()
      await new Promise(() => undefined)
    }
    return answerOnce(ctx)
  },
  ({ metadata }) => {
    harms[String(metadata['toolsHarm'])]?.()
    return []
  },
)

function fail(text: string): never {
  throw new Error(text)
}

// Code at the top of a user's module, which belongs to no rollout.
process.on('SIGUSR2', () => fail('thrown outside of rollouts'))

const app = createApp(loop, {
  shutdownGraceSeconds: 30,
  outboxDir: process.env['OUTBOX_DIR'],
  settings: { client: { retryBaseDelaySeconds: 0.1, retryMaxDelaySeconds: 1 } },
})
const { url } = await serve(app, { port: 0 })
process.stdout.write(`${url}\n`)
