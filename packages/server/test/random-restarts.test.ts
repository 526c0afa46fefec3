// @module-tag slow
import {
  type AcceptedLease,
  FakeController,
  KilledServer,
  LeaseClient,
  LeaseHandle,
  post,
  randomNumbers,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { startChild } from './start-child.ts'

// Dozens of processes one after the other: on a busy machine they take their time.
const timeout = 600_000

interface TerminalBody {
  rollout_id: string
  status: string
  err_message: string | null
  sample: { reward: number | null } | null
}

/** The reports about each rollout, by their source; only this test has all of them. */
class Account {
  readonly #bodies = new Map<string, Set<string>>()

  note(key: string, body: string): void {
    this.#bodies.set(key, (this.#bodies.get(key) ?? new Set()).add(body))
  }

  /** The first report; a different one is a contradiction. */
  end(key: string): string {
    const ends = [...(this.#bodies.get(key) ?? [])].map((body) => {
      const { status, err_message, sample } = JSON.parse(body) as TerminalBody
      const [, phase] = /restarted while the rollout was ([a-z ]+);/.exec(err_message ?? '') ?? []
      return `${status} ${phase ?? err_message ?? sample?.reward ?? ''}`.trim()
    })
    return ends.join(' AND ')
  }
}

it(
  'gives each of 120 rollouts one end while the server is killed again and again',
  { timeout },
  async () => {
    const seed = Number(process.env['SEED'] ?? 20_261_122)
    const random = randomNumbers(seed)
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    controller.otherwise = () => {
      const luck = random(10)
      if (luck > 1) return undefined
      return luck === 0 ? 503 : (response) => response.destroy()
    }
    await using server = new KilledServer(async () => startChild({ outboxDir, controller }))
    const account = new Account()
    const graded = new Set<string>()
    const leases: AcceptedLease[] = []
    let unknown = 0

    async function send(rollout_id: string): Promise<void> {
      const sent = await server.persist(async (to) => to.post({ rollout_id }))
      expect(sent.status).toBe(202)
      await controller.until(() => {
        for (const { kind, body } of controller.callbacks.splice(0)) {
          const id = (body as TerminalBody).rollout_id
          account.note(`${id}/${kind}`, JSON.stringify(body))
          if (kind === 'grader') graded.add(id)
        }
        return graded.has(rollout_id)
      })
      // A repeated request gets the same answer.
      await server.persist(async (to) => to.post({ rollout_id }))
    }

    async function lease(rollout_id: string): Promise<AcceptedLease | undefined> {
      const { url } = await server.process
      const body = controller.rolloutBody({ rollout_id, completion_callback_url: undefined })
      // Without an answer it may have been accepted, and its token is unknown.
      const answer = await post(`${url}/rollout`, body).catch(() => undefined)
      return (await answer?.json().catch(() => undefined)) as AcceptedLease | undefined
    }

    async function fetchResult(accepted: AcceptedLease): Promise<string> {
      return server.persist(async (from) => {
        const handle = new LeaseHandle(new LeaseClient(from), accepted)
        let result = await handle.once()
        while (!['success', 'failure'].includes(result.status)) result = await handle.once()
        return result.text
      })
    }

    const indexes = Array.from({ length: 120 }, (_, index) => index).values()
    const drive = async (): Promise<void> => {
      for (const index of indexes) {
        const accepted = index % 2 === 0 ? undefined : await lease(`fetched-${index}`)
        if (index % 2 === 0) await send(`sent-${index}`)
        else if (accepted === undefined) unknown += 1
        else {
          leases.push(accepted)
          account.note(accepted.rollout_id, await fetchResult(accepted))
        }
      }
    }
    const work = Promise.all(Array.from({ length: 10 }, drive))
    await server.killUntil(work, controller, () => 30 + random(60))
    for (const accepted of leases) account.note(accepted.rollout_id, await fetchResult(accepted))
    const { url } = await server.process
    await expect
      .poll(async () => (await fetch(`${url}/health`)).json())
      .toMatchObject({ undelivered: 0, lifecycle: { active_rollouts: 0 } })

    const sent = [...graded].map(
      (id) => `${account.end(`${id}/completion`)}, ${account.end(`${id}/grader`)}`,
    )
    const fetched = leases.map(({ rollout_id }) => account.end(rollout_id))
    const right = new Set([
      'failure running, failure running',
      'success, failure being graded',
      'success, success 1',
      'failure running',
      'failure being graded',
      'success 1',
    ])
    const wrong = [...new Set([...sent, ...fetched])].filter((end) => !right.has(end))
    expect({ seed, wrong }).toStrictEqual({ seed, wrong: [] })
    expect([graded.size, leases.length + unknown]).toStrictEqual([60, 60])
    expect(sent).toContain('success, success 1')
    expect(fetched).toContain('success 1')
    expect(server.kills).toBeGreaterThan(1)
  },
)
