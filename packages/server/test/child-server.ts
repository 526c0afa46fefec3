import { LocalBackend } from '@osmosis/core'
import { createRolloutServer, serve } from '@osmosis/server'

import { AskOnce, graderOf, OneForYes, workflowOf } from './running-server.ts'

/**
 * A rollout server as a user's program has it, run by tests in a process of its own. The row's
 * label says how its workflow misbehaves. Prints its URL when it listens.
 */
const server = createRolloutServer({
  backend: new LocalBackend({
    workflow: workflowOf(async (ctx) => {
      if (ctx.metadata?.['stray'] === 'rejection') {
        // oxlint-disable-next-line typescript/no-floating-promises -- as user code does
        Promise.reject(new Error('forgotten await'))
      }
      if (ctx.metadata?.['stray'] === 'exception') {
        setImmediate(() => {
          throw new Error('thrown from a timer')
        })
      }
      if (ctx.metadata?.['stray'] === 'after the end') {
        ctx.signal.addEventListener('abort', () => {
          // oxlint-disable-next-line typescript/no-misused-promises -- as user code does
          setTimeout(() => Promise.reject(new Error('too late to matter')), 500)
        })
        await new Promise(() => undefined)
      }
      if (ctx.metadata?.['never'] === true) {
        setInterval(() => undefined, 60_000)
        await new Promise(() => undefined)
      }
      await new AskOnce(undefined).run(ctx)
    }),
    grader: graderOf(async (ctx) => {
      if (ctx.metadata?.['never graded'] === true) await new Promise(() => undefined)
      await new OneForYes(undefined).grade(ctx)
    }),
  }),
  trajectories: false,
  drainSeconds: Number(process.env['DRAIN_SECONDS'] ?? 30),
  outboxDir: process.env['OUTBOX_DIR'],
  shutdownGraceSeconds: 2,
  callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
})
const { url } = await serve(server, { port: 0 })
process.stdout.write(`${url}\n`)
