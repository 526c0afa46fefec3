import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { isRunning, onlyIf } from '../../../test/kit/index.ts'
import { endpoint } from './model-endpoint.ts'
import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'

const { it } = onlyIf(process.platform === 'linux', 'Linux')

it(
  'a server whose threads all wait for a FIFO is unhealthy, and SIGTERM ends it',
  { tags: 'slow' },
  async () => {
    const { server, url } = await frozenServer('threads', '--drain-timeout', '1')
    const status = async (): Promise<number> => (await fetch(`${url}/health`)).status
    await expect.poll(status, { timeout: 60_000 }).toBe(503)
    const { detail } = (await (await fetch(`${url}/health`)).json()) as { detail: string }
    expect(detail).toBe('The file system does not answer')
    server.child.kill('SIGTERM')
    await server.finished
    expect(server.child.exitCode ?? server.child.signalCode).not.toBeNull()
  },
)

it('the server of an evaluation that is killed ends, although its event loop waits for a FIFO', async () => {
  await expectServerToEndAfter('SIGKILL', ['loop'])
})

it(
  'the server of an evaluation that is killed ends, whatever else waits for a FIFO',
  { tags: 'nightly' },
  async () => {
    await expectServerToEndAfter('SIGKILL', ['threads', 'one', 'none'])
  },
)

it.each([
  ['SIGTERM', 'one', []],
  ['SIGINT', 'one', ['--drain-timeout', '0']],
  ['SIGHUP', 'threads', ['--drain-timeout', '0']],
  ['SIGTERM', 'threads', ['--outbox']],
] as const)(
  '%s ends a server that waits with %s, with %j',
  { tags: 'nightly' },
  async (signal, how, flags) => {
    const outbox = flags[0] === '--outbox' ? [path.join(temporaryFolder(), 'outbox')] : []
    const limit = ['--drain-timeout', '1']
    const { server } = await frozenServer(how, ...limit, ...flags, ...outbox)
    server.child.kill(signal)
    await server.finished
    expect(server.child.exitCode ?? server.child.signalCode).not.toBeNull()
  },
)

it('a second SIGTERM ends a server at once', { tags: 'nightly' }, async () => {
  const { server } = await frozenServer('one')
  server.child.kill('SIGTERM')
  await server.printed(/signal received/)
  server.child.kill('SIGTERM')
  const { stderr } = await server.finished
  expect(stderr).toContain('second signal')
})

it(
  'the server of an evaluation ends with it after SIGTERM, whatever waits for a FIFO',
  { tags: 'slow' },
  async () => {
    await expectServerToEndAfter('SIGTERM', ['threads', 'loop'])
  },
)

it('the server of an evaluation ends with it after SIGINT', { tags: 'nightly' }, async () => {
  await expectServerToEndAfter('SIGINT', ['loop'])
})

it(
  'the server of an evaluation ends with it after each signal, whatever else waits for a FIFO',
  { tags: 'nightly' },
  async () => {
    await expectServerToEndAfter('SIGTERM', ['one', 'none'])
    await expectServerToEndAfter('SIGINT', ['threads', 'one', 'none'])
  },
)

/** Ends evaluations whose servers wait in different ways, and expects these to end as well. */
async function expectServerToEndAfter(
  signal: NodeJS.Signals,
  modes: readonly string[],
): Promise<void> {
  await Promise.all(
    modes.map(async (how) => {
      const output = temporaryFolder()
      const args = ['eval', 'run', '-m', 'rollouts/frozen/main.ts', '-d', 'data/words.jsonl']
      const more = [
        '--policy',
        'policies/echo.ts',
        '--no-grader',
        '--output',
        output,
        '--name',
        'r',
      ]
      const command = startOsmosis([...args, ...more], { FROZEN: how })
      const log = path.join(output, 'r/logs.txt')
      const text = (): string => (existsSync(log) ? readFileSync(log, 'utf8') : '')
      await expect.poll(text).toMatch(/^frozen$/m)
      const servers = childrenOf(command.child.pid)
      expect(servers.length).toBeGreaterThan(0)
      onTestFinished(() => {
        for (const pid of servers) if (isRunning(pid)) process.kill(pid, 'SIGKILL')
      })
      command.child.kill(signal)
      await command.finished
      await expect.poll(() => servers.filter((pid) => isRunning(pid))).toEqual([])
    }),
  )
}

/** A server, one of whose rollouts has opened FIFOs. */
async function frozenServer(
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
function childrenOf(parent: number | undefined): number[] {
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
