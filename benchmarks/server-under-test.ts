// A rollout server in a separate process, so that its CPU and memory can be measured: `ours` is
// @osmosis/server with a workflow that makes four model calls, `outbox` the same with an outbox, and `bare`
// does the same work with only node:http. Sends its URL to its parent, and its figures on request.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'

import { LocalBackend, createRolloutServer, serve } from '@osmosis/server'

import { askFourTimes } from './ask-four-times.ts'
import { acceptBare, askBare, tellBare, type BareRollout } from './bare-rollout.ts'

/** Figures of the server. */
export interface ServerFigures {
  /** Since the process began. Milliseconds. */
  readonly cpuMs: number
  /** Objects of JavaScript, and buffers. Bytes. */
  readonly heap: number
  /** Memory of the process at its peak so far. Bytes. */
  readonly peakRss: number
  /** Time between two turns of the event loop, since `watch`. Milliseconds. */
  readonly loopP99Ms: number
}

async function startOurs(outboxDir: string | undefined): Promise<number> {
  const server = createRolloutServer({
    backend: new LocalBackend(askFourTimes),
    logger: false,
    outboxDir,
    // The other servers that are compared write none.
    trajectories: false,
  })
  const { port } = await serve(server, { port: 0, handleSignals: false })
  return port
}

async function runBare(rollout: BareRollout): Promise<void> {
  await tellBare(rollout, await askBare(rollout))
}

/** Accepts first, like the others. */
async function beginBare(rollout: BareRollout): Promise<void> {
  void runBare(rollout)
}

function makeOutbox(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-benchmark-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
  return folder
}

const kind = process.argv[2]
const port =
  kind === 'bare'
    ? await acceptBare(beginBare)
    : await startOurs(kind === 'outbox' ? makeOutbox() : undefined)
const delay = monitorEventLoopDelay({ resolution: 1 })
process.on('message', (what) => {
  if (what === 'collect') globalThis.gc?.()
  // Not while CPU is measured, because it wakes the process a thousand times a second.
  if (what === 'watch') {
    delay.reset()
    delay.enable()
  } else delay.disable()
  const { user, system } = process.cpuUsage()
  const { heapUsed, external } = process.memoryUsage()
  process.send?.({
    cpuMs: (user + system) / 1000,
    heap: heapUsed + external,
    peakRss: process.resourceUsage().maxRSS * 1024,
    loopP99Ms: delay.percentile(99) / 1e6,
  } satisfies ServerFigures)
})
process.on('disconnect', () => process.exit())
process.send?.(port)
