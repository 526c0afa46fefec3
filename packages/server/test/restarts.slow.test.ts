import { setTimeout as sleep } from 'node:timers/promises'

import {
  FakeController,
  storedRollouts,
  LeaseClient,
  LeaseHandle,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { grading, running, receivedBodies, statusOf, wholeEnds } from './ends-of-killed.ts'
import { startServer } from './running-server.ts'
import { startChild } from './start-child.ts'

// Dozens of processes one after the other: on a busy machine they take their time.
const timeout = 600_000

const unfinished = new Set(['unknown', 'queued', 'running', 'grading'])
const never = new Promise<never>(() => undefined)

it(
  'gives a rollout one end, and retains it, at every step on the disk at which the server is killed',
  { timeout },
  async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const steps: string[] = []
    for (let count = 0; ; count += 1) {
      const child = await startChild({ outboxDir, controller })
      const rollout_id = `r${count}`
      const frozen = child.freezeDisk(count)
      const posted = child.post({ rollout_id }).catch(() => undefined)
      const watching = new AbortController()
      const over = posted.then(async () => {
        await controller.until(() => receivedBodies(controller, rollout_id).length === 2)
        while (!watching.signal.aborted && (await storedRollouts(outboxDir)).length > 0)
          await sleep(10)
        return watching.signal.aborted ? never : 'over'
      })
      steps.push(await Promise.race([frozen, over]))
      watching.abort()
      const before = await statusOf(child, rollout_id)
      await child.end()
      if (steps.at(-1) === 'over') break
      // It compacts the folder, so the next one starts without steps.
      await using next = await startServer({ outboxDir, controller })
      // Accepted before, or not: now it is, and leads to one end.
      expect((await next.post({ rollout_id })).status).toBe(202)
      await controller.until(() => receivedBodies(controller, rollout_id).length >= 2)
      await expect.poll(async () => storedRollouts(outboxDir)).toStrictEqual([])
      expect((await next.post({ rollout_id })).status).toBe(202)
      expect(Object.values(wholeEnds)).toContainEqual(receivedBodies(controller, rollout_id))
      // Status requests before the restart reported no other end.
      const after = await statusOf(next, rollout_id)
      expect(unfinished.has(before.status) ? after : before).toStrictEqual(after)
    }
    // A file has to be there, and its name be durable, before what is in it is.
    const accepting = ['open', 'write', 'datasync', 'sync']
    const keeping = ['write', 'datasync']
    const noting = ['write']
    const forgetting = ['open', 'write', 'datasync', 'sync', 'write']
    const whole = [
      ...accepting,
      ...keeping,
      ...noting,
      ...keeping,
      ...noting,
      ...forgetting,
      'over',
    ]
    expect(steps).toStrictEqual(whole)
  },
)

it(
  'gives a leased rollout one end, at whichever step on the disk the server is killed',
  { timeout },
  async () => {
    const outboxDir = await temporaryFolder()
    await using controller = await new FakeController().start()
    const steps: string[] = []
    const ends = new Set<string>()
    const lease = async (server: { readonly url: string }, id: string): Promise<LeaseHandle> => {
      const overrides = { rollout_id: id, completion_callback_url: undefined }
      return new LeaseClient(server).start(controller.rolloutBody(overrides))
    }
    while (steps.at(-1) !== 'over') {
      const child = await startChild({ outboxDir, controller })
      const frozen = child.freezeDisk(steps.length)
      let handle: LeaseHandle | undefined
      let before: string | undefined
      const over = async (): Promise<string> => {
        handle = await lease(child, `r${steps.length}`)
        before = (await handle.until()).text
        // The note that it was fetched follows the answer.
        await child.logged('rollout ended')
        await (await lease(child, `next-${steps.length}`)).until()
        return 'over'
      }
      steps.push(await Promise.race([frozen, over().catch(async () => never)]))
      await child.end()
      await using next = await startServer({ outboxDir, controller })
      if (handle === undefined) continue
      const { text, status, err_category, err_message, sample } = await new LeaseHandle(
        new LeaseClient(next),
        handle.accepted,
      ).until()
      expect(text).toBe(before ?? text)
      ends.add(`${status} ${err_category} ${err_message} ${sample?.reward}`)
      await expect(lease(next, handle.accepted.rollout_id)).rejects.toThrow('409')
    }
    // Four to accept it, one for its grading, two to keep its end; then that it was fetched.
    expect(steps.length).toBeGreaterThan(7)
    expect(ends).toStrictEqual(
      new Set([
        `failure agent_error ${running} undefined`,
        `failure agent_error ${grading} undefined`,
        'success null null 1',
      ]),
    )
  },
)
