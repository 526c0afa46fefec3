import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { isRunning, onlyIf } from '../../../test/kit/index.ts'
import { expect, onTestFinished } from 'vitest'

import { childrenOf, frozenServer } from './frozen-servers.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'

const { it } = onlyIf(process.platform === 'linux', 'Linux')

it('a server whose threads all wait for a FIFO is unhealthy, and SIGTERM ends it', async () => {
  const { server, url } = await frozenServer('threads', '--drain-timeout', '1')
  const status = async (): Promise<number> => (await fetch(`${url}/health`)).status
  await expect.poll(status, { timeout: 60_000 }).toBe(503)
  const { detail } = (await (await fetch(`${url}/health`)).json()) as { detail: string }
  expect(detail).toBe('The file system does not answer')
  server.child.kill('SIGTERM')
  await server.finished
  expect(server.child.exitCode ?? server.child.signalCode).not.toBeNull()
})

it('the server of an evaluation that is killed ends, whatever waits for a FIFO', async () => {
  await expectServerToEndAfter('SIGKILL')
})

it.each([
  ['SIGTERM', 'one', []],
  ['SIGINT', 'one', ['--drain-timeout', '0']],
  ['SIGHUP', 'threads', ['--drain-timeout', '0']],
  ['SIGTERM', 'threads', ['--outbox']],
] as const)(
  '%s ends a server that waits with %s, with %j',
  { tags: 'slow' },
  async (signal, how, flags) => {
    const outbox = flags[0] === '--outbox' ? [path.join(temporaryFolder(), 'outbox')] : []
    const limit = ['--drain-timeout', '1']
    const { server } = await frozenServer(how, ...limit, ...flags, ...outbox)
    server.child.kill(signal)
    await server.finished
    expect(server.child.exitCode ?? server.child.signalCode).not.toBeNull()
  },
)

it('a second SIGTERM ends a server at once', { tags: 'slow' }, async () => {
  const { server } = await frozenServer('one')
  server.child.kill('SIGTERM')
  await server.printed(/signal received/)
  server.child.kill('SIGTERM')
  const { stderr } = await server.finished
  expect(stderr).toContain('second signal')
})

it.each(['SIGTERM', 'SIGINT'] as const)(
  'the server of an evaluation ends with it after %s, whatever waits for a FIFO',
  { tags: 'slow' },
  async (signal) => {
    await expectServerToEndAfter(signal)
  },
)

/** Ends evaluations whose servers wait in different ways, and expects these to end as well. */
async function expectServerToEndAfter(signal: NodeJS.Signals): Promise<void> {
  const modes = ['threads', 'one', 'loop', 'none']
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
