import { appendFileSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { journalEvents } from '../../../test/kit/index.ts'
import { inWorkspace, run, workIn } from './in-process.ts'
import { endpoint, refuse, say } from './model-endpoint.ts'
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

describe('a run that was halted because the key was refused', () => {
  it('names the variable of the key, and resumes when the key is right', async () => {
    let keys = ['old']
    const upstream = await endpoint(({ headers }, response) => {
      const isKnown = keys.includes(headers.authorization?.slice('Bearer '.length) ?? '')
      if (!isKnown || upstream.received.length === 3) refuse(response, 401, 'wrong key')
      else say(response, 'one')
      if (upstream.received.length === 3) keys = ['new']
    })
    const { evaluate, output, events } = evaluations()
    const flags = `--base-url ${upstream.url}/v1 --model m --api-key-env MY_KEY --max-in-flight 1`
    const halted = await evaluate(flags, { MY_KEY: 'old' })
    const [name = ''] = runsIn(output)
    expect([halted.code, halted.stderr]).toEqual([
      1,
      expect.stringContaining(
        'error: The run is incomplete. The policy answered 401: {"error":{"message":"wrong key"}}\nCheck the key in MY_KEY (--api-key-env).\n',
      ),
    ])
    // Once: the report has what to do next.
    expect(halted.stdout).not.toContain('wrong key')
    const resume = /Continue {2,}(?:npx )?osmosis (.+)\n/.exec(halted.stdout)?.[1] ?? ''
    expect(resume).toBe(`eval run ${echo} --output ${output} ${flags} --name ${name}`)
    const shown = await run(['eval', 'show', name, '--output', output])
    expect(shown.stdout).toContain(`osmosis ${resume}\n`)
    expect(shown.stdout).toContain('wrong key')
    expect(places(events(name))).toEqual(['0.0', '1.0'])

    const again = await run(resume.split(' '), { MY_KEY: 'new' })
    expect(again.stderr).toContain(`Resuming ${name}, 2 of 4 done\n`)
    expect([again.code, runsIn(output), places(events(name))]).toEqual([
      0,
      [name],
      ['0.0', '1.0', '2.0', '3.0'],
    ])
    expect(again.stdout).toContain('1 of 4 have a reward of 1 or more\n')
  })
})

it('a link that leads nowhere is no source of a rollout', async () => {
  const root = temporaryWorkspace({ 'rollouts/mine/main.ts': "export * from '../echo/main.ts'\n" })
  symlinkSync('nowhere.md', path.join(root, 'rollouts/mine/notes.md'))
  const words = `eval run -m rollouts/mine/main.ts -d data/words.jsonl --policy policies/echo.ts --output ${temporaryFolder()}`
  expect((await run(words.split(' '), {}, root)).code).toBe(0)
})

it('a source that cannot be read is named before anything runs', async () => {
  const root = temporaryWorkspace({ 'rollouts/mine/main.ts': "export * from '../echo/main.ts'\n" })
  symlinkSync('/proc/self/mem', path.join(root, 'rollouts/mine/notes.md'))
  const words = `eval run -m rollouts/mine/main.ts -d data/words.jsonl --policy policies/echo.ts --output ${temporaryFolder()}`
  const { code, stderr } = await run(words.split(' '), {}, root)
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /^error: Cannot read rollouts\/mine\/notes\.md, which belongs to the inputs of the run: EIO: .* Let this user read it, or move it elsewhere\.\n$/,
    ),
  ])
})

it('a run that cannot be read does not keep others from starting', async () => {
  const { evaluate, output } = evaluations()
  expect((await evaluate('--policy policies/echo.ts')).code).toBe(0)
  const [first = ''] = runsIn(output)
  appendFileSync(path.join(output, first, 'events.jsonl'), 'nonsense\n{}\n')
  const { code, stderr } = await evaluate('--policy policies/echo.ts')
  expect([code, runsIn(output)]).toEqual([0, [first, expect.any(String)]])
  expect(stderr).toContain('warning: A run is left out, because it cannot be read:')
})

it('--dry-run prints the plan with its limit and a missing grader, and writes nothing', async () => {
  const root = temporaryWorkspace({
    'configs/eval/ungraded.toml': evalConfig('ungraded'),
    'rollouts/ungraded/main.ts': `export { EchoWorkflow } from '../echo/main.ts'`,
  })
  const output = temporaryFolder()
  const words = `eval run configs/eval/ungraded.toml --policy policies/echo.ts --n 3 --output ${output} --dry-run --no-grader`
  const { code, stdout, stderr } = await run(words.split(' '), {}, root)
  expect([code, stdout, readdirSync(output)]).toEqual([0, '', []])
  expect(stderr).toMatch(
    /^Would start ungraded-1\n {2}Rollout +ungraded\n {2}Dataset +data\/words\.jsonl\n {2}Size +4 rows × 3 attempts = 12 rollouts\n {2}Model +policies\/echo\.ts\n {2}Folder +.*\n {2}In flight +4 concurrently: the default of a workflow without a config\n {2}Calls {6}no limit per rollout: rolloutLimits.modelCalls sets one\n {2}Grader {5}none, so no rollout gets a reward\n$/,
  )
})

describe('a finished run', { tags: 'slow' }, () => {
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

describe('a run of that name', { tags: 'slow' }, () => {
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
      expect(stderr).toMatch(/ Pass --fresh to start a new run, .*, or pass another --name\./)
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
