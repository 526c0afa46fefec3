import { readdirSync, readFileSync } from 'node:fs'

import { expect } from 'vitest'

import { endpoint } from './model-endpoint.ts'
import { startOsmosis, type RunningCommand } from './osmosis.ts'

/** A server, one of whose rollouts has opened FIFOs. */
export async function frozenServer(
  how: string,
  ...flags: string[]
): Promise<{ server: RunningCommand; url: string }> {
  const args = ['serve', 'rollouts/frozen/main.ts', '--port', '0', '--no-auth', ...flags]
  const server = startOsmosis(args, { FROZEN: how })
  const [, url = ''] = await server.printed(/Listening on (\S+)/)
  const { url: cluster } = await endpoint((_, response) => response.writeHead(200).end())
  const accepted = await fetch(`${url}/rollout`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      rollout_id: 'r1',
      initial_messages: [{ role: 'user', content: 'hi' }],
      chat_completions_url: cluster,
      completion_callback_url: `${cluster}/completion`,
    }),
  })
  expect(accepted.status).toBe(202)
  await server.printed(/^frozen$/m)
  return { server, url }
}

/** The processes that a process has started. */
export function childrenOf(parent: number | undefined): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1] === `${parent}`
        )
      } catch {
        return false
      }
    })
    .map(Number)
}
