import { describe, expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'
import { startOsmosis } from './osmosis.ts'

inWorkspace()

const servers = [
  {
    what: 'a workflow',
    args: ['rollouts/echo/main.ts'],
    route: '/rollout',
    key: 'chat_completions_url',
    body: { initial_messages: [], completion_callback_url: 'http://trainer.test/completion' },
  },
  {
    what: 'an agent loop',
    args: ['-m', 'rollouts/agent-loops/adder.ts:agentLoop'],
    route: '/v1/rollout/init',
    key: 'server_url',
    body: { rollout_id: 'r1', messages: [], completion_params: {} },
  },
]

describe.each(servers)('osmosis serve of $what', ({ args, route, key, body }) => {
  /** Which of these hosts the server refuses to connect to. */
  async function refusedBy(flags: readonly string[], hosts: readonly string[]): Promise<string[]> {
    const command = startOsmosis(['serve', ...args, '--port', '0', ...flags])
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    const refused: string[] = []
    for (const [n, host] of hosts.entries()) {
      const response = await fetch(`${url}${route}`, {
        method: 'POST',
        body: JSON.stringify({ ...body, rollout_id: `r${n}`, [key]: `http://${host}/v1` }),
      })
      if (response.status === 202) {
        await response.text()
        continue
      }
      expect(await response.json()).toMatchObject({ detail: [{ loc: ['body', key] }] })
      refused.push(host)
    }
    // What was accepted would be tried until there is an answer.
    command.child.kill('SIGKILL')
    await command.finished
    return refused
  }

  const hosts = ['127.0.0.1:1', '0x7f.1:2', '169.254.169.254', 'trainer.test', 'other.test']

  it('refuses metadata addresses, and hosts that are not listed', { tags: 'slow' }, async () => {
    const listed = ['--allow-host', 'trainer.test:80', '--allow-host', '127.0.0.1:1']
    expect(await refusedBy([...listed, '--no-private-hosts'], hosts)).toEqual([
      '0x7f.1:2',
      '169.254.169.254',
      'other.test',
    ])
  })

  it(
    'refuses only metadata addresses without flags, and private hosts with a flag',
    { tags: 'nightly' },
    async () => {
      expect(await refusedBy([], hosts)).toEqual(['169.254.169.254'])
      expect(await refusedBy(['--no-private-hosts'], hosts)).toEqual(hosts.slice(0, 3))
    },
  )

  it('does not start with a host that cannot be read', async () => {
    const { code, stderr } = await osmosis(['serve', ...args, '--allow-host', 'https://trainer'])
    expect(code).toBe(2)
    expect(stderr).toContain('An allowed host must be a name, an address or a subnet')
  })
})
