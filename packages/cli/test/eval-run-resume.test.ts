import { readdirSync } from 'node:fs'
import path from 'node:path'

import { journalEvents } from '../../../test/kit/index.ts'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { describe, expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
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

describe('a run of that name', { tags: 'slow' }, () => {
  it('is started again with --fresh, which keeps what is there under another name', async () => {
    const { evaluate, output } = evaluations()
    const flags = '--policy policies/echo.ts --name r'
    await evaluate(`${flags} --limit 1`)
    const { code, stderr } = await evaluate(`${flags} --fresh --temperature 1 --limit 2`)
    expect([code, runsIn(output).toSorted()]).toEqual([0, ['r', 'r.1']])
    expect(stderr).toContain('Starting r\n')
  })
})
