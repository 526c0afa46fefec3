import path from 'node:path'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'

import { describe, afterAll, expect, it, vi } from 'vitest'

import {
  FakeController,
  post,
  startServerProcess,
  type TestServerProcess,
} from '../../../../../test/kit/index.ts'
import {
  deliveries,
  onlySample,
  outcomeCases,
  type OutcomeCase,
} from '../../../../../test/kit/outcomes/index.ts'

// Outcomes are decided in one process.
runOutcomeTable('LocalBackend', (row) => !endsServer(row) && row.entrypoint === undefined)

const samples = ['graded', 'graded, with two samples', 'grader threw']
runOutcomeTable('WorkerPoolBackend', ({ situation }) => samples.includes(situation))

describe('with servers that exit, and with workers', { tags: 'slow' }, () => {
  runOutcomeTable('LocalBackend', (row) => endsServer(row) || row.entrypoint !== undefined)
  runOutcomeTable('WorkerPoolBackend')
})

const script = new URL('./outcome-server.ts', import.meta.url)
const folders: string[] = []
/** Servers by backend and entrypoint; rows that end their server have one of their own. */
const servers = new Map<string, Promise<TestServerProcess>>()
const ends: (() => Promise<void>)[] = []

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-outcomes-'))
  folders.push(folder)
  return folder
}

/** How the server of a row ends. */
async function endOf(
  { meanwhile }: OutcomeCase,
  server: TestServerProcess,
  restart: () => Promise<TestServerProcess>,
): Promise<TestServerProcess> {
  if (meanwhile === 'cancelled') await post(`${server.url}/rollout/cancel`, { all: true })
  if (meanwhile === 'shut down') server.kill('SIGTERM')
  if (meanwhile !== 'killed and started again') return server
  await server.end()
  return restart()
}

/** Rows that end their server, and so have their own. */
function endsServer({ meanwhile }: OutcomeCase): boolean {
  return meanwhile === 'shut down' || meanwhile === 'killed and started again'
}

/** Declares a test for each row of the table that `takes` chooses. */
function runOutcomeTable(
  backend: 'LocalBackend' | 'WorkerPoolBackend',
  takes: (row: OutcomeCase) => boolean = () => true,
): void {
  afterAll(async () => {
    await Promise.all(ends.splice(0).map(async (end) => end()))
    servers.clear()
    const removed = folders
      .splice(0)
      .map((folder) => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
    await Promise.all(removed)
  })
  const all = outcomeCases.filter(
    (row) => takes(row) && (!row.endsProcess || backend === 'WorkerPoolBackend'),
  )
  describe.each(Object.entries(deliveries))(`through %s, with ${backend}`, (name, delivery) => {
    const rows = all.map((row, index) => ({
      ...row,
      id: `${row.idPrefix ?? index}-${name.replace(' ', '-')}`,
    }))

    it.each(rows)('delivers the outcome: $situation', async (row) => {
      const { id, entrypoint = 'graded', meanwhile } = row
      const env = { BACKEND: backend, ENTRYPOINT: entrypoint, ARTIFACT_ROOT: await newFolder() }
      await using controller = await new FakeController().start()
      controller.hanging = meanwhile !== undefined
      const isAlone = endsServer(row)
      const key = `${backend} ${isAlone ? id : entrypoint}`
      const OUTBOX_DIR = isAlone ? await newFolder() : undefined
      const start = (): Promise<TestServerProcess> => {
        const server = startServerProcess(script, { ...env, OUTBOX_DIR }, (end) => ends.push(end))
        servers.set(key, server)
        return server
      }

      const first = await (servers.get(key) ?? start())
      const fields = { rollout_id: id, metadata: row.does ?? null, ...row.request }
      const ended = await delivery.send(first.url, controller, fields)
      if (meanwhile) await controller.until(() => controller.openPolicyCalls === 1)
      const server = await endOf(row, first, start)
      expect(await ended(server.url)).toStrictEqual(delivery.expected(id, row))

      if (meanwhile === 'shut down') {
        await server.exit
        return
      }
      await vi.waitFor(async () => {
        const health: unknown = await (await fetch(`${server.url}/health`)).json()
        expect(health).toMatchObject({ undelivered: 0, lifecycle: { active_rollouts: 0 } })
      }, 60_000)
      const { status, err_message } = delivery.state(row)
      const sample = status === 'success' && row.grader ? onlySample(row.grader) : null
      expect(await (await fetch(`${server.url}/rollout/${id}/status`)).json()).toStrictEqual({
        rollout_id: id,
        status,
        reward: sample?.['reward'] ?? null,
        err_message,
      })
      // No callback arrived after the outcome.
      expect(await ended(server.url)).toStrictEqual(delivery.expected(id, row))
      if (isAlone) await server.end()
    })
  })
}
