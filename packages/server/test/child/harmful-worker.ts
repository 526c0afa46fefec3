import { appendFileSync, closeSync, statSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  OsmosisError,
  requireRolloutContext,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { runWorker } from '@osmosis/server/child'

// Workflows that harm their process as their prompt says: "ask segfault" calls the policy first.

/** The file descriptor of the channel to the parent; the next one is the pipe for exit reports. */
const channel = 3
const shared = new Uint8Array(new SharedArrayBuffer(8))
const retained: unknown[] = []
let exitAtModuleLevel = false
let thrownAtModuleLevel = ''
setInterval(() => {
  // Belongs to no rollout, because it was started when the module was loaded.
  if (exitAtModuleLevel) process.exit(0)
  if (thrownAtModuleLevel !== '') throw new Error(thrownAtModuleLevel)
}, 10).unref()

const harms: Readonly<Record<string, () => unknown>> = {
  nothing: () => {},
  exit: () => process.exit(0),
  'exit-from-outside': async () => {
    exitAtModuleLevel = true
    await sleep(100_000)
  },
  'exit-at-once': () => exitAtOnce(3),
  throw: async () => {
    setTimeout(() => {
      throw new Error('thrown in a timer')
    }, 1)
    await sleep(100_000)
  },
  'throw-much': () => {
    throw new Error('e'.repeat(10_000_000))
  },
  // An error with fields that cannot be cloned, from a rollout that answers nothing.
  'throw-unsendable': () => {
    const code = (): void => {}
    throw Object.assign(new OsmosisError('timeout', 'not to be sent'), { code, cause: shared })
  },
  'throw-shared': () => {
    throw shared // oxlint-disable-line typescript/only-throw-error -- as user code does
  },
  'throw-revoked': () => {
    const { proxy, revoke } = Proxy.revocable(new Error(), {})
    revoke()
    throw proxy
  },
  'throw-much-from-outside': async () => {
    thrownAtModuleLevel = 'e'.repeat(10_000_000)
    await sleep(100_000)
  },
  'throw-unreadable': () => {
    const refuse = (): never => {
      throw new Error('not to be read')
    }
    throw new Proxy(new Error(), { get: refuse, getPrototypeOf: refuse })
  },
  abort: () => process.abort(),
  'close-channel': async () => {
    closeSync(channel)
    await sleep(100_000)
  },
  'close-channel-once': async () => {
    appendFileSync(process.argv[3] ?? '', '.')
    if (statSync(process.argv[3] ?? '').size === 1) await harms['close-channel']?.()
  },
  'garble-channel': async () => {
    writeSync(channel, Buffer.from([0, 0, 0, 4, 1, 2, 3, 4]))
    await sleep(100_000)
  },
  'send-nonsense': async () => {
    ;(process as unknown as Record<string, (message: unknown) => void>)['_send']?.(null)
    await sleep(100_000)
  },
  'garble-last-words': () => {
    writeSync(channel + 1, 'null\n{ "kind": \n')
    exitAtOnce(4)
  },
  // From the descriptor after the channel on, which includes the one that Node.js waits with.
  'close-files': async () => {
    for (let file = channel + 2; file < 64; file += 1) {
      try {
        closeSync(file)
      } catch {
        // The descriptor is not open.
      }
    }
    await sleep(100_000)
  },
  loop: () => {
    for (;;);
  },
  allocate: () => {
    for (;;) retained.push(Array.from({ length: 10_000 }, (_, n) => ({ n })))
  },
  hoard: async () => {
    // In parts, because a busy machine may need longer for all of it than a worker may block.
    for (let part = 0; part < 15; part += 1) {
      retained.push(Buffer.alloc(10_000_000, 1))
      await sleep(1)
    }
    for (;;);
  },
  buffers: () => {
    for (;;) retained.push(Buffer.alloc(10_000_000, 1))
  },
  segfault: () => process.kill(process.pid, 'SIGSEGV'),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  'kill-once': () => beKilled(process.argv[3] ?? '', 1),
  // As programs do that support process managers.
  'speak-to-parent': () => process.send?.(null),
  'leave-parent': () => (process as { disconnect?(): void }).disconnect?.(),
  'remove-listeners': () => {
    const removed = (): void => {}
    process.on('SIGUSR2', removed).removeAllListeners()
    if (process.listeners('SIGUSR2').includes(removed)) throw new Error('it is still there')
  },
  // As when the process has no free file descriptor.
  'hide-memory': async () => {
    const { rss } = process.memoryUsage // oxlint-disable-line typescript/unbound-method -- put back as it is
    process.memoryUsage.rss = () => {
      throw new Error('EMFILE: too many open files')
    }
    await sleep(1500)
    process.memoryUsage.rss = rss
  },
  print: async () => {
    process.stderr.write('printed\n')
    await sleep(50)
  },
  wait: async () => sleep(100_000),
  pause: async () => sleep(20),
}

class HarmfulWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<object> {
    const steps = String(ctx.prompt[0]?.['content']).split(' ')
    for (const step of steps) {
      if (step === 'ask') await ask(ctx.rolloutId)
      else if (step === 'open-folder') await ctx.workFolder({ parent: process.argv[3] ?? '' })
      else await harms[step]?.()
    }
    return { messages: [{ role: 'assistant', content: `pid ${process.pid}` }] }
  }
}

async function ask(content: string): Promise<void> {
  const policy = requireRolloutContext('test').policy(`asked-by-${process.pid}`)
  await policy.complete({ messages: [{ role: 'user', content }] })
}

class HarmfulGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    await harms[ctx.label ?? '']?.()
    ctx.setReward(1)
  }
}

function exitAtOnce(code: number): void {
  ;(process as unknown as { reallyExit(code: number): void }).reallyExit(code)
}

/** Counts in a file, over all processes, from 1. */
function counted(file: string): number {
  appendFileSync(file, '.')
  return statSync(file).size
}

function assertFirst(file: string): void {
  if (counted(file) > 1) throw new Error('loaded a second time')
}

/** Kills the process in its first `times` starts, counted in a file. */
function beKilled(file: string, times: number): void {
  if (counted(file) <= times) process.kill(process.pid, 'SIGKILL')
}

await runWorker(async () => {
  if (process.argv[2] === 'unloadable') throw new SyntaxError('this entrypoint has a mistake')
  if (process.argv[2] === 'exits') process.exit(7)
  if (process.argv[2] === 'never-loads') await new Promise(() => {})
  if (process.argv[2] === 'loads-once') assertFirst(process.argv[3] ?? '')
  if (process.argv[2] === 'has-no-successor' && counted(process.argv[4] ?? '') > 2) process.exit(7)
  if (process.argv[2] === 'dies-young') setTimeout(() => process.exit(0), 50)
  if (process.argv[2] === 'is-killed') beKilled(process.argv[3] ?? '', Number(process.argv[4]))
  return {
    backend: {
      workflow: HarmfulWorkflow,
      workflowConfig: defineWorkflowConfig({
        name: 'harmful',
        ...(process.argv[2] === 'ten-at-once' && { concurrency: { maxConcurrent: 10 } }),
      }),
      grader: HarmfulGrader,
    },
    facts: { loadedBy: process.pid },
    answer: async (question: unknown) => {
      if (question === 'die') process.exit(1)
      if (question === 'variables') return Object.keys(process.env)
      return { question, pid: process.pid }
    },
  }
})
