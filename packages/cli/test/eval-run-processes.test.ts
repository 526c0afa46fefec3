import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { readResults } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'

const sums = '-d data/sums.jsonl'

/** A run in a folder of its own, by words of the command line with spaces between them. */
function start(...flags: string[]): { command: RunningCommand; folder: string; log: () => string } {
  const args = flags.flatMap((words) => words.split(' '))
  const output = temporaryFolder()
  const folder = path.join(output, 'r')
  const logs = path.join(folder, 'logs.txt')
  return {
    command: startOsmosis(['eval', 'run', ...args, '--output', output, '--name', 'r']),
    folder,
    log: () => (existsSync(logs) ? readFileSync(logs, 'utf8') : ''),
  }
}

async function urlOf(log: () => string): Promise<string> {
  await expect.poll(log).toContain('rollout accepted')
  return /Listening on (\S+)/.exec(log())?.[1] ?? ''
}

it('osmosis eval run stops on Ctrl-C: cancels what runs, keeps what is done, leaves no server behind', async () => {
  const { command, folder, log } = start('configs/eval/echo.toml --policy policies/silent.ts')
  const url = await urlOf(log)
  command.child.kill('SIGINT')
  const { code, stdout, stderr } = await command.finished
  expect(code).toBe(130)
  expect(stderr).toContain('Stopping: cancelling what runs.')
  expect(stdout).toMatch(/incomplete/)
  expect(readResults(folder).run).toMatchObject({
    status: 'incomplete',
    incomplete_reason: 'interrupted',
  })
  await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
})

it('osmosis eval run leaves no server behind when it is killed', async () => {
  const { command, log } = start('configs/eval/echo.toml --policy policies/silent.ts')
  const url = await urlOf(log)
  command.child.kill('SIGKILL')
  const isUp = (): Promise<boolean> =>
    fetch(`${url}/health`).then(
      () => true,
      () => false,
    )
  await expect.poll(isUp).toBe(false)
})

it('osmosis eval run keeps the rollouts of a loop that have ended when Ctrl-C cuts off the others', async () => {
  const upstream = await endpoint(({ body }, response) => {
    if (!JSON.stringify(body['messages']).includes('10 and 20')) say(response, '5')
  })
  const { command, folder } = start(
    `-m rollouts/agent-loops/adder.ts ${sums}`,
    `--max-in-flight 1 --base-url ${upstream.url}/v1 --model m1`,
  )
  await expect.poll(() => upstream.received.length).toBe(3)
  command.child.kill('SIGINT')
  const { code, stdout } = await command.finished
  expect([code, stdout]).toEqual([130, expect.stringContaining('2 of 4 done\n')])
  expect(readResults(folder).records.map(({ reward }) => reward)).toEqual([1, 0])
})

it('osmosis eval run waits neither for an eval function nor for a policy that does not answer', async () => {
  const { command, folder } = start(
    `-m rollouts/agent-loops/adder.ts ${sums}`,
    '--rows 2 --eval-fn rollouts/agent-loops/rewards.ts:hanging',
    '--policy policies/adding.ts --baseline-policy policies/silent.ts',
  )
  await command.printed(/judging 30/)
  command.child.kill('SIGINT')
  expect((await command.finished).code).toBe(130)
  expect(readResults(folder)).toMatchObject({ records: [], run: { status: 'incomplete' } })
})

it('osmosis eval run goes on when something that nobody waits for fails in a loop or an eval function', async () => {
  const straying = 'rollouts/agent-loops/straying.ts'
  const { command, folder, log } = start(
    `-m ${straying} ${sums}`,
    `--limit 1 --policy policies/adding.ts --eval-fn ${straying}:judge`,
  )
  const { code, stderr } = await command.finished
  expect(code).toBe(0)
  expect(stderr).toContain('warning: unhandled rejection in user code: the judge forgot this\n')
  expect(log()).toContain('the loop forgot this')
  expect(readResults(folder).records).toMatchObject([{ status: 'success', reward: 1 }])
})
