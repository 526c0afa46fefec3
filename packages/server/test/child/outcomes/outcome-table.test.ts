import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { createRolloutServer, serve } from '@osmosis/server'
import { createWorkerPool } from '@osmosis/server/child'
import { describe, afterAll, expect, it, onTestFinished, vi } from 'vitest'

import {
  FakeController,
  post,
  startServerProcess,
  type TestServerProcess,
} from '../../../../../test/kit/index.ts'
import {
  deliveries,
  type DeliveryPath,
  onlySample,
  outcomeCases,
  type OutcomeCase,
} from '../../../../../test/kit/outcomes/index.ts'

// Outcomes are decided in one process.
runOutcomeTable('LocalBackend', (row) => row.entrypoint === undefined)

const samples = ['graded', 'graded, with two samples', 'grader threw']
runOutcomeTable('WorkerPoolBackend', ({ situation }) => samples.includes(situation))

describe('with servers that exit, and with workers', { tags: 'slow' }, () => {
  runOutcomeTable('LocalBackend', (row) => row.entrypoint !== undefined)
  runOutcomeTable('WorkerPoolBackend', ({ situation }) => !samples.includes(situation))
  for (const backend of ['LocalBackend', 'WorkerPoolBackend'] as const) {
    const rows = outcomeCases.filter(endsServer)
    it.each(rows)(`delivers every outcome, with ${backend}: $situation`, async (row) => {
      await expect(deliverAtEnd(backend, row)).resolves.toBeUndefined()
    })
  }
})

type Backend = 'LocalBackend' | 'WorkerPoolBackend'

const script = new URL('./outcome-server.ts', import.meta.url)
const folders: string[] = []
const ends: (() => Promise<void>)[] = []
/** Servers that rows share, by backend and entrypoint. */
const servers = new Map<string, Promise<{ readonly url: string }>>()

afterAll(async () => {
  await Promise.all(ends.map(async (end) => end()))
  const removed = folders.map((folder) =>
    rm(folder, { recursive: true, force: true, maxRetries: 3 }),
  )
  await Promise.all(removed)
})

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-outcomes-'))
  folders.push(folder)
  return folder
}

async function startProcess(
  backend: Backend,
  entrypoint: string,
  outboxDir?: string,
): Promise<TestServerProcess> {
  const folder = { ARTIFACT_ROOT: await newFolder(), OUTBOX_DIR: outboxDir }
  const env = { BACKEND: backend, ENTRYPOINT: entrypoint, ...folder }
  return startServerProcess(script, env, (end) => ends.push(end))
}

/** A server with workers in this process, whose user code can do no harm here. */
async function startHere(entrypoint: string): Promise<{ readonly url: string }> {
  const pool = await createWorkerPool({
    module: path.join(import.meta.dirname, 'outcome-worker.ts'),
    args: [entrypoint, await newFolder()],
    execArgv: [],
    workers: 1,
  })
  const server = createRolloutServer({
    backend: pool,
    logger: false,
    trajectories: false,
    drainSeconds: 0,
    callbackRetry: { minDelayMs: 1, maxDelayMs: 5 },
  })
  const listening = await serve(server, { port: 0, handleSignals: false })
  ends.push(async () => {
    await listening.close()
    await pool.close()
  })
  return listening
}

/** Rows that end their server, and so have their own. */
function endsServer({ meanwhile }: OutcomeCase): boolean {
  return meanwhile === 'shut down' || meanwhile === 'killed and started again'
}

/** Declares a test for each row of the table that `takes` chooses, without those that end their server. */
function runOutcomeTable(backend: Backend, takes: (row: OutcomeCase) => boolean): void {
  const all = outcomeCases.filter(
    (row) =>
      takes(row) && !endsServer(row) && (!row.endsProcess || backend === 'WorkerPoolBackend'),
  )
  describe.each(Object.entries(deliveries))(`through %s, with ${backend}`, (name, delivery) => {
    const rows = all.map((row, index) => ({ ...row, id: idOf(row, index, name) }))

    it.each(rows)('delivers the outcome: $situation', async (row) => {
      const { id, entrypoint = 'graded', meanwhile } = row
      const key = `${backend} ${entrypoint}`
      const start = async (): Promise<{ readonly url: string }> =>
        backend === 'LocalBackend' ? startProcess(backend, entrypoint) : startHere(entrypoint)
      const starting = servers.get(key) ?? start()
      servers.set(key, starting)
      const { url } = await starting
      const sent = await sendTo(url, delivery, id, row)
      if (meanwhile) await post(`${url}/rollout/cancel`, { all: true })
      expect(await sent.received(url)).toStrictEqual(sent.expected)
      await expectIdle(url)
      await expectState(url, id, delivery, row)
      // No callback arrived after the outcome.
      expect(await sent.received(url)).toStrictEqual(sent.expected)
    })
  })
}

function idOf(row: OutcomeCase, index: number, delivery: string): string {
  return `${row.idPrefix ?? index}-${delivery.replace(' ', '-')}`
}

interface Sent {
  /** What its caller receives, from a server at this URL. */
  received(url: string): Promise<unknown>
  readonly expected: unknown
}

/** Sends the rollout of a row, and waits until it hangs in a model call where something happens meanwhile. */
async function sendTo(
  url: string,
  delivery: DeliveryPath,
  id: string,
  row: OutcomeCase,
): Promise<Sent> {
  const controller = await new FakeController().start()
  onTestFinished(async () => controller[Symbol.asyncDispose]())
  controller.hanging = row.meanwhile !== undefined
  const fields = { rollout_id: id, metadata: row.does ?? null, ...row.request }
  const ended = await delivery.send(url, controller, fields)
  if (row.meanwhile) await controller.until(() => controller.openPolicyCalls === 1)
  return { received: ended, expected: delivery.expected(id, row) }
}

async function expectReceived(all: readonly { readonly sent: Sent }[], url: string): Promise<void> {
  const received = await Promise.all(all.map(async ({ sent }) => sent.received(url)))
  expect(received).toStrictEqual(all.map(({ sent }) => sent.expected))
}

async function expectIdle(url: string): Promise<void> {
  await vi.waitFor(async () => {
    const health: unknown = await (await fetch(`${url}/health`)).json()
    expect(health).toMatchObject({ undelivered: 0, lifecycle: { active_rollouts: 0 } })
  }, 60_000)
}

async function expectState(
  url: string,
  id: string,
  delivery: DeliveryPath,
  row: OutcomeCase,
): Promise<void> {
  const { status, err_message } = delivery.state(row)
  const sample = status === 'success' && row.grader ? onlySample(row.grader) : null
  expect(await (await fetch(`${url}/rollout/${id}/status`)).json()).toStrictEqual({
    rollout_id: id,
    status,
    reward: sample?.['reward'] ?? null,
    err_message,
  })
}

/** Ends a server that has a rollout of each delivery, and expects what their callers receive. */
async function deliverAtEnd(backend: Backend, row: OutcomeCase): Promise<void> {
  const outboxDir = await newFolder()
  const start = async (): Promise<TestServerProcess> => startProcess(backend, 'graded', outboxDir)
  const first = await start()
  const all: { id: string; delivery: DeliveryPath; sent: Sent }[] = []
  for (const [name, delivery] of Object.entries(deliveries)) {
    const id = idOf(row, all.length, name)
    const sent = await sendTo(first.url, delivery, id, row)
    all.push({ id, delivery, sent })
  }
  if (row.meanwhile === 'shut down') {
    first.kill('SIGTERM')
    await expectReceived(all, first.url)
    await first.exit
    return
  }
  await first.end()
  const next = await start()
  await expectReceived(all, next.url)
  await expectIdle(next.url)
  for (const { id, delivery } of all) await expectState(next.url, id, delivery, row)
  // No callback arrived after the outcome.
  await expectReceived(all, next.url)
  await next.end()
}
