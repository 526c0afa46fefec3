// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { freePort, onlyIf } from '../../../test/kit/index.ts'
import { run } from './in-process.ts'
import { bin, startOsmosis, temporaryFolder, testEnvironment, workspace } from './osmosis.ts'
import { storedItem, storeRun } from './stored-runs.ts'

const { it } = onlyIf(process.platform === 'linux', 'Linux')

/** How the streams of a command fail. */
const failures = {
  'stdout on a full disk': '>/dev/full',
  'both on a full disk': '>/dev/full 2>&1',
  'stderr on a full disk': '2>/dev/full',
  'stdout closed': '>&-',
  'stderr closed': '2>&-',
  'both without a reader': '2>&1 | true',
}

interface Ended {
  readonly code: number | null
  readonly stderr: string
}

async function withFailing(redirection: string, args: readonly string[]): Promise<Ended> {
  const line = `("$0" "$@"; echo "code $?" >&3) ${redirection}`
  const child = spawn('/bin/sh', ['-c', line, process.execPath, bin, ...args], {
    cwd: workspace,
    env: testEnvironment,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true,
  })
  onTestFinished(() => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // It has ended.
    }
  })
  let [stderr, said] = ['', '']
  child.stderr?.on('data', (piece: Buffer) => (stderr += piece.toString()))
  child.stdio[3]?.on('data', (piece: Buffer) => (said += piece.toString()))
  await once(child, 'close')
  return { code: Number(/code (\d+)/.exec(said)?.[1] ?? NaN), stderr }
}

/** Each command that ends by itself, and whether it prints on stdout. `$runs` has two runs. */
const commands: readonly string[] = [
  '--help',
  '--version',
  'eval run configs/eval/echo.toml --policy policies/echo.ts --rows 0 --output $fresh',
  'eval run configs/eval/echo.toml --policy policies/echo.ts --rows 0 --output $fresh --json',
  'eval run configs/eval/echo.toml --policy policies/echo.ts --rows 0 --output $fresh --quiet',
  'eval runs --output $runs',
  'eval show $runs/stored',
  'eval show $runs/stored --json',
  'eval show $runs/stored 0',
  'eval compare $runs/stored $runs/stored',
  'eval audit $runs/stored',
  'eval export $runs/stored --csv -',
  'eval export $runs/stored --jsonl -',
  'eval export $runs/stored --junit -',
  'test -m rollouts/agent-loops/adder.ts -d data/sums.jsonl --policy policies/adding.ts --limit 1',
  'validate -m rollouts/agent-loops/adder.ts',
  'validate -m rollouts/echo/main.ts',
  'rollout init --help',
  'doctor',
  'serve --help',
  'worker --help',
  'train --help',
  'train local --help',
  'dataset --help',
  'dataset validate data/words.jsonl',
  'auth status',
  'secret list',
  'no-such-command',
]

/** How a command ends, and how it ends where its outputs work. */
async function endsOf(
  what: keyof typeof failures,
  command: string,
): Promise<{ ended: Ended; usual: { code: number | null; stdout: string } | undefined }> {
  const [runs, fresh] = [temporaryFolder(), path.join(temporaryFolder(), 'runs')]
  // More than a stream holds at once.
  const items = Array.from({ length: 40 }, (_, row) => storedItem(row, 'a'.repeat(2000), 1))
  if (command.includes('$runs')) await storeRun(runs, items)
  const words = command.replaceAll('$runs', runs).replaceAll('$fresh', fresh).split(' ')
  const ended = await withFailing(failures[what], words)
  const isCompared = what === 'stdout on a full disk' && !command.includes('eval run')
  return { ended, usual: isCompared ? await run(words, {}, workspace) : undefined }
}

const wellEnded: Ended = {
  // On an unsettled promise Node would end with 13.
  code: expect.toSatisfy((value) => value >= 0 && value < 4) as number,
  stderr: expect.not.stringMatching(/unsettled|\n {4}at /) as string,
}

/** One for each way to print: help, a run as it goes, tables, one document, rows, and the results of checks. */
const ways: readonly string[] = commands.filter((command) =>
  /^--help|--rows 0 --output \$fresh$|^eval show \$runs\/stored(?: --json)?$|--csv -$|^doctor$|^no-/.test(
    command,
  ),
)
const otherCommands = commands.filter((command) => !ways.includes(command))

async function expectToSaySo(command: string): Promise<void> {
  const { ended, usual } = await endsOf('stdout on a full disk', command)
  expect(ended).toEqual(wellEnded)
  if (usual === undefined || usual.stdout === '') return
  expect(ended).toMatchObject({
    code: usual.code || 1,
    stderr: expect.stringContaining('error: Cannot write to the standard output: ENOSPC'),
  })
}

it.each(ways)('with stdout on a full disk it ends and says so: %s', expectToSaySo)
it.each(otherCommands)(
  'with stdout on a full disk it ends and says so, too: %s',
  { tags: 'nightly' },
  expectToSaySo,
)

const others = (Object.keys(failures) as (keyof typeof failures)[]).filter(
  (what) => what !== 'stdout on a full disk',
)
const everyOther = others.flatMap((what) => commands.map((command) => [what, command] as const))
it.each(everyOther)('with %s it ends: %s', { tags: 'nightly' }, async (what, command) => {
  expect((await endsOf(what, command)).ended).toEqual(wellEnded)
})

it.each(['>/dev/full', '2>/dev/full', '>/dev/full 2>&1'])(
  'osmosis serve %s continues to serve, and ends on SIGTERM',
  async (redirection) => {
    const words = [process.execPath, bin, 'serve', 'rollouts/echo/main.ts', '--no-auth']
    const port = await freePort()
    const child = spawn(
      '/bin/sh',
      ['-c', `exec "$0" "$@" ${redirection}`, ...words, '--port', String(port)],
      { cwd: workspace, env: testEnvironment, stdio: 'ignore' },
    )
    onTestFinished(() => void child.kill('SIGKILL'))
    const health = async (): Promise<number> =>
      fetch(`http://127.0.0.1:${port}/health`).then(
        ({ status }) => status,
        () => 0,
      )
    await expect.poll(health).toBe(200)
    expect(await health()).toBe(200)
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
    expect(child.exitCode).toBe(redirection.startsWith('>') ? 1 : 0)
  },
)

it('osmosis eval view without a reader ends on SIGTERM', async () => {
  const runs = temporaryFolder()
  await storeRun(runs, [storedItem(0, 'a', 1)])
  const view = startOsmosis(['eval', 'view', path.join(runs, 'stored'), '--no-open'])
  await view.printed(/http:\/\//)
  view.child.stdout?.destroy()
  view.child.stderr?.destroy()
  view.child.kill('SIGTERM')
  expect((await view.finished).code).not.toBe(13)
})
