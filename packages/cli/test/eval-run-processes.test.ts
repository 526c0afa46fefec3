// @module-tag slow
import { existsSync, readFileSync, chmodSync, readdirSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { inWorkspace, readResults, start as startHere, type StartedCommand } from './in-process.ts'
import { endpoint, say } from './model-endpoint.ts'
import { startOsmosis, temporaryFolder, type RunningCommand } from './osmosis.ts'

inWorkspace()

interface StartedRun<Command> {
  readonly command: Command
  readonly folder: string
  readonly log: () => string
}

/** A run in a folder of its own, in a process, by words of the command line with spaces between them. */
function start(...flags: string[]): StartedRun<RunningCommand> {
  return startRun(startOsmosis, flags)
}

/** As {@link start}, in this process. */
function startInside(...flags: string[]): StartedRun<StartedCommand> {
  return startRun(startHere, flags)
}

function startRun<Command>(
  begin: (args: readonly string[]) => Command,
  flags: readonly string[],
): StartedRun<Command> {
  const args = flags.flatMap((words) => words.split(' '))
  const output = temporaryFolder()
  const folder = path.join(output, 'r')
  const logs = path.join(folder, 'logs.txt')
  return {
    command: begin(['eval', 'run', ...args, '--output', output, '--name', 'r']),
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
  expect(stderr).toContain('Stopping: cancelling running work.')
  expect(stdout).toMatch(/incomplete/)
  expect(readResults(folder).run).toMatchObject({
    status: 'incomplete',
    incomplete_reason: 'interrupted',
  })
  await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed')
})

const sums = '-d data/sums.jsonl'

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
  const { command, folder } = startInside(
    `-m rollouts/agent-loops/adder.ts ${sums}`,
    `--max-in-flight 1 --base-url ${upstream.url}/v1 --model m1`,
  )
  await expect.poll(() => upstream.received.length).toBe(3)
  const { code, stdout } = await command.end()
  expect([code, stdout]).toEqual([130, expect.stringContaining('2 of 4 done\n')])
  expect(readResults(folder).records.map(({ reward }) => reward)).toEqual([1, 0])
})

it('osmosis eval run waits neither for an eval function nor for a policy that does not answer', async () => {
  const { command, folder } = start(
    `-m rollouts/agent-loops/adder.ts ${sums}`,
    '--rows 2 --eval-fn rollouts/agent-loops/rewards.ts:hanging',
    '--policy policies/adding.ts',
  )
  await command.printed(/judging 30/)
  command.child.kill('SIGINT')
  expect((await command.finished).code).toBe(130)
  expect(readResults(folder)).toMatchObject({ records: [], run: { status: 'incomplete' } })
})

it('osmosis eval run continues when a promise that is not awaited fails in a loop or an eval function', async () => {
  const straying = 'rollouts/agent-loops/straying.ts'
  const { command, folder, log } = start(
    `-m ${straying} ${sums}`,
    `--limit 1 --n 2 --policy policies/adding.ts --eval-fn ${straying}:judge`,
  )
  const { stderr } = await command.finished
  expect(stderr).toContain('warning: unhandled rejection in user code: the judge forgot this\n')
  const forgot = 'the agent loop left a rejection unhandled: the loop forgot this'
  expect(log()).toContain(forgot)
  const { records } = readResults(folder)
  expect(records.filter(({ status }) => status === 'failed')).toMatchObject([
    { error_message: expect.stringContaining(forgot) as unknown },
  ])
  expect(records.filter(({ status }) => status === 'success')).toMatchObject([{ reward: 1 }])
})

it('osmosis eval run begins two runs when it is started twice at once', async () => {
  const output = temporaryFolder()
  const args = ['eval', 'run', 'configs/eval/echo.toml', '--policy', 'policies/echo.ts']
  const ended = await Promise.all(
    [1, 2].map(() => startOsmosis([...args, '--output', output]).finished),
  )
  expect(ended.map(({ code }) => code)).toEqual([0, 0])
  const names = readdirSync(output).filter((name) => !name.startsWith('.'))
  const totals = names.map((name) => readResults(path.join(output, name)).records.length)
  expect(totals).toEqual([totals[0], totals[0]])
  expect(totals[0]).toBeGreaterThan(0)
})

it('osmosis eval run begins another run while one of the same inputs is written to', async () => {
  const output = temporaryFolder()
  const args = ['eval', 'run', 'configs/eval/echo.toml', '--output', output, '--policy']
  const first = startOsmosis([...args, 'policies/silent.ts'])
  await first.printed(/In flight/)
  const second = startHere([...args, 'policies/silent.ts'])
  await second.printed(/In flight/)
  first.child.kill('SIGINT')
  expect([(await first.finished).code, (await second.end()).code]).toEqual([130, 130])
  expect(readdirSync(output).filter((name) => !name.startsWith('.'))).toHaveLength(2)
})

// root can write to any folder.
const isRoot = process.getuid?.() === 0
onlyIf(!isRoot && process.platform !== 'win32', 'a user other than root').it(
  `osmosis eval run names a folder that is read-only`,
  async () => {
    const output = temporaryFolder()
    chmodSync(output, 0o555)
    const words = `eval run configs/eval/echo.toml --policy policies/echo.ts --output ${output}`
    const { code, stderr } = await startOsmosis(words.split(' ')).finished
    chmodSync(output, 0o755)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/error: Cannot write to \S+: EACCES.* Let this user write to \S+, or/),
    ])
    expect(stderr).not.toContain('    at ')
  },
)
