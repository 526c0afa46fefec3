import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'

import { expect, it, onTestFinished, vi } from 'vitest'

import { watchThread } from '../src/eval/models/remote-servers.ts'

/** The advice after a run of `seconds`, in which the thread of the server was busy for a fraction. */
async function adviceAfter(
  seconds: number,
  { busy, rollouts }: { readonly busy: string; readonly rollouts: number },
): Promise<string | undefined> {
  const server = createServer((_request, response) => {
    response.end(`# HELP nodejs_eventloop_utilization x\nnodejs_eventloop_utilization ${busy}\n`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const thread = await watchThread({ url: `http://127.0.0.1:${port}`, apiKey: 'key' })
  for (let n = 0; n < rollouts; n++) thread.rolloutBegins()
  const now = performance.now()
  const clock = vi.spyOn(performance, 'now').mockReturnValue(now + seconds * 1000)
  try {
    return await thread.advice()
  } finally {
    clock.mockRestore()
  }
}

it('advises workers when rollouts occupied the thread of the server', async () => {
  expect(await adviceAfter(10, { busy: '0.939', rollouts: 100 })).toBe(
    `The workflow occupied its thread for 93 % of the time. --workers auto runs rollouts on all ${availableParallelism()} cores.`,
  )
})

it.each([
  ['waited', 10, { busy: '0.6', rollouts: 100 }],
  ['was over soon', 1, { busy: '0.99', rollouts: 1 }],
  ['took the thread for the protocol alone', 10, { busy: '0.9', rollouts: 3000 }],
])('gives no advice for a run that %s', async (_what, seconds, run) => {
  expect(await adviceAfter(seconds, run)).toBeUndefined()
})
