import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { journalEvents } from '../../../test/kit/index.ts'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { inWorkspace, run, workIn } from './in-process.ts'
import { temporaryFolder, type Finished } from './osmosis.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const echo = 'configs/eval/echo-once.toml'

/** Runs evaluations in one folder, by words of the command line. */
function evaluations(config = echo): {
  readonly output: string
  readonly evaluate: (flags?: string, env?: Record<string, string>) => Promise<Finished>
  /** The journal of a run. */
  readonly events: (name: string) => ItemEvent[]
} {
  const output = temporaryFolder()
  return {
    output,
    evaluate: async (flags = '', env = {}) =>
      run(`eval run ${config} --output ${output} ${flags}`.trim().split(/ +/), env),
    events: (name) => journalEvents<ItemEvent>(path.join(output, name, 'events.jsonl')),
  }
}

function runsIn(output: string): string[] {
  return readdirSync(output).filter((name) => !name.startsWith('.'))
}

/** The rows and attempts of events. */
function places(events: readonly ItemEvent[]): string[] {
  return events.map((event) => `${event.source_row_index}.${event.run_index}`)
}

describe('a finished run', () => {
  it('dispatches nothing, then exactly what is added, and failures only with --retry-failed', async () => {
    const { evaluate, events, output } = evaluations(
      '-m rollouts/agent-loops/faulty.ts:choosy -d data/sums.jsonl',
    )
    const flags = '--policy policies/adding.ts --name r'
    expect((await evaluate(`${flags} --rows 0-1 --max-in-flight 1`)).code).toBe(0)
    expect(places(events('r'))).toEqual(['0.0', '1.0'])

    const again = await evaluate(flags.replace('--name', '--quiet --rows 0 --name'))
    expect([again.code, again.stderr, places(events('r'))]).toEqual([0, '', ['0.0', '1.0']])
    expect(again.stdout).toBe('r finished: 50.0 % passed\n')
    // Nothing was served.
    expect(readFileSync(path.join(output, 'r/logs.txt'), 'utf8').match(/Listening/g)).toHaveLength(
      1,
    )

    await evaluate(`${flags} --n 2 --rows 2 --max-in-flight 1`)
    expect(places(events('r')).slice(2)).toEqual(['0.1', '1.1', '2.0', '2.1'])

    const unmatched = await evaluate(`${flags} --quiet --retry-failed=timeout`)
    expect([unmatched.code, unmatched.stderr]).toEqual([
      0,
      'warning: No rollout failed with timeout: the failures are of type rollout_protocol_error.\n',
    ])
    expect(events('r')).toHaveLength(6)
    await evaluate(`${flags} --max-in-flight 1 --retry-failed`)
    expect(places(events('r')).slice(6)).toEqual(['1.0', '1.1'])
  })
})

describe('a run of that name', () => {
  it('refuses each kind of changed input by its name, and says how to continue', async () => {
    const config = (rest: string): string =>
      `${evalConfig('echo', '[secrets]\nrequired = []\n')}${rest}`
    const root = temporaryWorkspace({
      'configs/eval/e.toml': config(''),
      'data/mine.jsonl': '{"user_prompt":"a","ground_truth":"A"}\n',
      'policies/other.ts': "export { policy } from './helper.ts'\n",
      'policies/helper.ts': "export { policy } from './echo.ts'\n",
      'rollouts/mine/main.ts': "export * from '../helper/main.js'\n",
      'rollouts/helper/main.ts': "export * from '../echo/main.ts'\n",
    })
    const mine = '-m rollouts/mine/main.ts -d data/mine.jsonl --policy policies/other.ts --name r'
    const file = (name: string): string => path.join(root, name)
    const evaluate = async (flags: string): Promise<Finished> => run(`eval run ${flags}`.split(' '))
    workIn(root)
    expect((await evaluate(mine)).code).toBe(0)
    const refusal = async (change: () => void, flags = mine): Promise<string> => {
      change()
      const { code, stderr } = await evaluate(flags)
      expect(code).toBe(2)
      // Both ways out.
      expect(stderr).toMatch(/ Pass --fresh to start a new run, .*, or another --name\./)
      return /these have changed: (.*?)\. Pass/.exec(stderr)?.[1] ?? stderr
    }
    expect(await refusal(() => {}, `${mine} --temperature 1`)).toMatch(/^model \([^)]*\)$/)
    expect(await refusal(() => {}, `${mine} --max-turns 1`)).toBe('timeouts')
    expect(
      await refusal(() =>
        writeFileSync(file('policies/other.ts'), "export { policy } from './helper.js'\n"),
      ),
    ).toMatch(/^code \([^)]*\)$/)
    writeFileSync(file('policies/other.ts'), "export { policy } from './helper.ts'\n")
    const changedAbove = async (name: string): Promise<string> => {
      const text = readFileSync(file(name), 'utf8')
      const refused = await refusal(() => writeFileSync(file(name), `// Another.\n${text}`))
      writeFileSync(file(name), text)
      return refused
    }
    // What the policy module and the entrypoint import.
    expect(await changedAbove('policies/helper.ts')).toMatch(/^code/)
    expect(await changedAbove('rollouts/helper/main.ts')).toMatch(/^code/)
    expect(
      await refusal(() => writeFileSync(file('rollouts/mine/prompt.md'), 'Be brief.')),
    ).toMatch(/^code/)
    expect(
      await refusal(() =>
        writeFileSync(file('data/mine.jsonl'), '{"user_prompt":"b","ground_truth":"B"}\n'),
      ),
    ).toMatch(/^dataset, code/)

    const inWorkspaceConfig = 'configs/eval/e.toml --policy policies/echo.ts --name c --limit 1'
    expect((await evaluate(inWorkspaceConfig)).code).toBe(0)
    const changed = async (rest: string): Promise<string> =>
      refusal(() => writeFileSync(file('configs/eval/e.toml'), config(rest)), inWorkspaceConfig)
    expect(await changed('[env]\nA = "1"\n')).toBe('env')
    expect(await changed('[evaluation]\nagent_workflow_timeout_s = 5\n')).toBe('timeouts')
  })

  it('is started again with --fresh, which keeps what is there under another name', async () => {
    const { evaluate, output } = evaluations()
    const flags = '--policy policies/echo.ts --name r'
    await evaluate(`${flags} --limit 1`)
    const { code, stderr } = await evaluate(`${flags} --fresh --temperature 1 --limit 2`)
    expect([code, runsIn(output).toSorted()]).toEqual([0, ['r', 'r.1']])
    expect(stderr).toContain('Starting r\n')
  })
})
