import { describe, expect, it } from 'vitest'

import { post, storedRollouts, temporaryFolder } from '../../../test/kit/index.ts'
import { failingDisk } from './failing-disk.ts'
import { leasing } from './leasing-server.ts'
import { startServer } from './running-server.ts'

// One that is stored a second time would wait for the disk.
describe('a rollout whose acceptance is still being written', { timeout: 20_000 }, () => {
  it('runs once, whoever asks for it meanwhile, and all get the same answer', async () => {
    const disk = await failingDisk()
    await using running = await startServer({ outboxDir: await temporaryFolder() })
    using writing = disk.hold()
    const first = running.post()
    await expect.poll(() => disk.waiting).toBe(1)
    const others = Array.from({ length: 5 }, async () => running.post())
    // Another body is refused at once: it is another rollout, whatever becomes of the first one.
    expect((await running.post({ label: 'no' })).status).toBe(409)
    expect(running.controller.events).toEqual([])
    writing[Symbol.dispose]()
    const answers = await Promise.all([first, ...others])
    const texts = await Promise.all(answers.map(async (answer) => answer.text()))
    expect([...new Set(answers.map(({ status }) => status)), ...new Set(texts)]).toEqual([
      202,
      '{}',
    ])
    await running.server.drain()
    expect(running.controller.events).toEqual([
      'policy call',
      'policy call closed',
      'completion 200',
      'grader 200',
    ])
  })

  it('is refused for all of them when it cannot be written, and is free again', async () => {
    const disk = await failingDisk()
    await using running = await startServer({ outboxDir: await temporaryFolder() })
    using writing = disk.hold()
    const first = running.post()
    await expect.poll(() => disk.waiting).toBe(1)
    const others = [running.post(), running.post()]
    expect((await running.post({ label: 'no' })).status).toBe(409)
    disk.losses = 1
    writing[Symbol.dispose]()
    const answers = await Promise.all([first, ...others])
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503])
    expect((await running.post({ label: 'no' })).status).toBe(202)
    expect(await running.controller.bodies()).toHaveLength(2)
  })

  it('has one lease', async () => {
    const disk = await failingDisk()
    await using running = await leasing({ outboxDir: await temporaryFolder() })
    using writing = disk.hold()
    const first = post(`${running.url}/rollout`, running.body())
    await expect.poll(() => disk.waiting).toBe(1)
    const others = [post(`${running.url}/rollout`, running.body()), running.post()]
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual([409, 409])
    writing[Symbol.dispose]()
    expect((await first).status).toBe(202)
  })

  it('is refused when the server begins to end meanwhile, and no later process knows it', async () => {
    const disk = await failingDisk()
    const outboxDir = await temporaryFolder()
    {
      await using first = await startServer({ outboxDir })
      using writing = disk.hold()
      const late = first.post()
      const leased = first.post({ rollout_id: 'leased', completion_callback_url: undefined })
      await expect.poll(() => disk.waiting).toBe(1)
      const drained = first.server.drain()
      writing[Symbol.dispose]()
      expect((await Promise.all([late, leased])).map(({ status }) => status)).toEqual([503, 503])
      await drained
      expect(first.controller.events).toEqual([])
    }
    expect(await storedRollouts(outboxDir)).toEqual([])
    await using second = await startServer({ outboxDir })
    expect((await second.post({ label: 'no' })).status).toBe(202)
    const [completion] = await second.controller.bodies()
    expect(completion).toMatchObject({ status: 'success' })
  })
})
