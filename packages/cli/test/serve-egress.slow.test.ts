import { expect, it } from 'vitest'

import { startOsmosis } from './osmosis.ts'

/** Which of these hosts a server refuses to connect to. */
async function refusedBy(flags: readonly string[], hosts: readonly string[]): Promise<string[]> {
  const command = startOsmosis(['serve', 'rollouts/echo/main.ts', '--port', '0', ...flags])
  const [, url = ''] = await command.printed(/Listening on (\S+)/)
  const refused: string[] = []
  for (const [n, host] of hosts.entries()) {
    const { status } = await fetch(`${url}/rollout`, {
      method: 'POST',
      body: JSON.stringify({
        rollout_id: `r${n}`,
        initial_messages: [],
        chat_completions_url: `http://${host}/v1`,
        completion_callback_url: 'http://trainer.test/completion',
      }),
    })
    if (status !== 202) refused.push(host)
  }
  // What was accepted would be tried until there is an answer.
  command.child.kill('SIGKILL')
  await command.finished
  return refused
}

it('osmosis serve refuses only metadata addresses without flags, and private hosts with a flag', async () => {
  const hosts = ['127.0.0.1:1', '0x7f.1:2', '169.254.169.254', 'trainer.test', 'other.test']
  expect(await refusedBy([], hosts)).toEqual(['169.254.169.254'])
  expect(await refusedBy(['--no-private-hosts'], hosts)).toEqual(hosts.slice(0, 3))
})
