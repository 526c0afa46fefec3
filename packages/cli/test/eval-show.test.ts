import { execFile } from 'node:child_process'
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'

import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import {
  failure,
  resumeWith,
  makeRun,
  rewarded,
  type MadeItem,
  type MadeRun,
  type Steps,
} from './made-runs.ts'
import { bin, temporaryFolder, workspace, type Finished } from './osmosis.ts'

/** Runs in a folder of their own, and the commands that show them. */
function folder(): {
  readonly output: string
  readonly make: (made: Omit<MadeRun, 'outputRoot'>) => Promise<string>
  readonly show: (args: readonly string[], columns?: number | '') => Promise<Finished>
  readonly runs: (...args: readonly string[]) => Promise<Finished>
} {
  const output = temporaryFolder()
  return {
    output,
    make: (made) => makeRun({ outputRoot: output, ...made }),
    show: (args, columns = '') =>
      run(['eval', 'show', '--output', output, ...args], { COLUMNS: String(columns) }),
    runs: (...args) => run(['eval', 'runs', '--output', output, ...args], { COLUMNS: '' }),
  }
}

const widths = [60, 80, 200]

/** The widest line but for those that are to be copied. */
function widest({ stdout }: Finished): number {
  const lines = stdout.split('\n').filter((line) => !/osmosis eval |^Folder/.test(line))
  return Math.max(...lines.map((line) => stripVTControlCharacters(line).length))
}

describe('the list of runs', () => {
  it('says of each what it is, how far it is and what it came to, the newest first', async () => {
    const { make, runs, output } = folder()
    const manifest = { created_at: '2026-01-01T00:00:00.000Z' }
    await make({
      name: 'old',
      rows: 2,
      n: 2,
      manifest,
      items: rewarded([
        [1, 0],
        [1, 1],
      ]),
    })
    await make({
      name: 'new',
      rows: 3,
      items: rewarded([[0.5], [1]]),
      inputs: { name: 'step-300' },
    })
    mkdirSync(path.join(output, 'copied'))
    const { code, stdout } = await runs()
    expect(code).toBe(0)
    const [head, ...lines] = stdout.split('\n')
    expect(head).toMatch(/^Run +Status +Rows +Reward +Passed +Started +Model$/)
    expect(lines[0]).toMatch(
      /^new +incomplete 2\/3 +3 rows × 1 +0\.75 +50\.0 % +2026-01-02 +step-300$/,
    )
    expect(lines[1]).toMatch(/^old +finished +2 rows × 2 +0\.75 +75\.0 % +2026-01-01 +step-200$/)
    expect(lines[2]).toMatch(/^copied +broken$/)
    expect(stdout).toContain('copied: Cannot read the manifest')
  })

  it('is one JSON document with --json', async () => {
    const { make, runs, output } = folder()
    const location = await make({ name: 'one', rows: 2, items: rewarded([[1], [0]]) })
    writeFileSync(path.join(output, 'no-folder'), '')
    const { runs: listed } = JSON.parse((await runs('--json')).stdout) as { runs: object[] }
    expect(listed).toEqual([
      expect.objectContaining({
        name: 'one',
        location,
        status: 'finished',
        model: 'step-200',
        rows: 2,
        n: 1,
        done: 2,
        total: 2,
        measure: 'reward',
        pass_rate: { value: 0.5, ci95: [expect.any(Number), expect.any(Number)], rows: 2 },
      }),
    ])
  })

  it('says which run is running, and which cannot be read', async () => {
    const { make, runs } = folder()
    const location = await make({ name: 'live', rows: 4, items: [] })
    const store = await resumeWith(location, rewarded([[1]]))
    const damaged = await make({ name: 'damaged', rows: 1, items: rewarded([[1]]) })
    appendFileSync(path.join(damaged, 'events.jsonl'), 'nonsense\n{}\n')
    const { stdout } = await runs()
    await store.close()
    expect(stdout).toMatch(/^live +running 1\/4 /m)
    expect(stdout).toMatch(/^damaged +broken$/m)
    expect(stdout).toMatch(/^damaged: .*events\.jsonl:2 is not a valid event/m)
  })

  it('says when there is none', async () => {
    expect((await folder().runs()).stdout).toMatch(/^There are no runs in .*osmosis eval run/)
  })
})

describe('the name of a run', () => {
  it('may be cut short, be left out for the newest, and be a folder', async () => {
    const { make, show } = folder()
    const created = (day: number) => ({ created_at: `2026-01-0${day}T00:00:00.000Z` })
    const airline = await make({ name: 'airline-1', rows: 1, items: [], manifest: created(1) })
    await make({ name: 'airline-2', rows: 1, items: [], manifest: created(3) })
    await make({ name: 'hotel', rows: 1, items: [], manifest: created(2) })
    const shown = async (...args: readonly string[]): Promise<string | undefined> =>
      (await show(args)).stdout.split('  ')[0]
    expect(await shown()).toBe('airline-2')
    expect(await shown('latest')).toBe('airline-2')
    expect(await shown('h')).toBe('hotel')
    expect(await shown('airline-1')).toBe('airline-1')
    expect(await shown(airline)).toBe('airline-1')
    expect(await show(['air'])).toMatchObject({
      code: 2,
      stderr: 'error: The names of several runs begin with air: airline-2, airline-1.\n',
    })
    expect(await show(['other'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /There is no run other in .*: there are airline-2, hotel, airline-1\./,
      ),
    })
  })

  it('selects a re-grading behind an @', async () => {
    const { make, show } = folder()
    const location = await make({ name: 'both', rows: 1, items: rewarded([[1]]) })
    mkdirSync(path.join(location, 'grades'))
    const grade = {
      source_row_index: 0,
      run_index: 0,
      rollout_id: 'rollout-0-0',
      reward: 0.125,
      error: null,
    }
    writeFileSync(path.join(location, 'grades/strict.jsonl'), `${JSON.stringify(grade)}\n`)
    const reward = async (name: string): Promise<string | undefined> =>
      /Reward +(\S+)/.exec((await show([name])).stdout)?.[1]
    expect(await reward('both')).toBe('1')
    expect(await reward('both@strict')).toBe('0.125')
    expect((await show(['both@lenient'])).stderr).toBe(
      'error: There is no both@lenient: there are both@strict.\n',
    )
  })
})

describe('the summary of a run', () => {
  const four: readonly (number | null)[][] = Array.from({ length: 20 }, (_, row) => [
    1,
    row % 2,
    row % 4 === 0 ? null : 1,
    0,
  ])

  it('says in twelve lines what came out and what to do next', async () => {
    const { make, show } = folder()
    const location = await make({ name: 'airline', rows: 20, n: 4, items: rewarded(four) })
    writeFileSync(path.join(location, 'progress.json'), JSON.stringify({ duration_ms: 10_000 }))
    const { stdout } = await show([])
    expect(stdout.split('\n')).toStrictEqual([
      'airline  finished · 5 of 80 rollouts failed · ready to train: yes, with losses: 5 without a reward',
      'airline · data/airline.jsonl · step-200 · 20 rows × 4 attempts = 80 rollouts',
      expect.stringMatching(/^Reward +0\.6 +between /),
      expect.stringMatching(
        /^Pass rate +56\.3 % +between .*; 45 of 80 have a reward of 1 or more$/,
      ),
      expect.stringMatching(/^Signal +100\.0 % +between .*; 20 of 20 rows with a training signal/),
      'Time         10.0 s in all, 8.00 rollouts/s',
      '',
      expect.stringMatching(/^In the browser {2}osmosis eval view \S*airline$/),
      expect.stringMatching(/^First failure {2}5 × timeout: /),
      expect.stringMatching(/^ {2}osmosis eval show \S*airline 0\.3$/),
      expect.stringMatching(/^More figures {4}osmosis eval show \S*airline --details$/),
      '',
    ])
  })

  it.each(widths)('ends eval run with at most twelve lines of %i columns', async (width) => {
    const output = temporaryFolder()
    const evaluate = ['eval', 'run', 'configs/eval/echo.toml', '--n', '2', '--output', output]
    const failing = ['--eval-fn', 'configs/../rollouts/echo/rewards.ts:exact']
    for (const more of [[], failing]) {
      const ran = await run([...evaluate, ...more], { COLUMNS: String(width) }, workspace)
      const [first, ...lines] = ran.stdout.trimEnd().split('\n')
      expect(first).toBe('')
      expect(lines.length).toBeLessThanOrEqual(width < 80 ? 16 : 12)
      expect(widest(ran)).toBeLessThanOrEqual(width)
    }
  })

  it('ends the second run of a config with the command that compares it with the first', async () => {
    const output = temporaryFolder()
    const ask = async (): Promise<string> => {
      const args = ['eval', 'run', 'configs/eval/echo.toml', '--output', output]
      return (await run(args, { COLUMNS: '' }, workspace)).stdout
    }
    expect(await ask()).not.toContain('eval compare')
    expect(await ask()).toMatch(/^Compare +osmosis eval compare \S*echo-1 \S*echo-2$/m)
  })

  it('shows the first cause whole, with what to do, when nothing got a reward', async () => {
    const { make, show } = folder()
    const cause = `The policy endpoint answered 401: ${'a long explanation '.repeat(20)}and its end`
    const items = [0, 1].map((row) => ({ row, attempt: 0, event: failure('http_error', cause) }))
    await make({ name: 'airline', rows: 2, items })
    const shown = await show([], 80)
    const { stdout } = shown
    expect(stdout).toContain('2 × http_error, for example 0.1')
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(cause)
    expect(stdout).toContain('Check the key')
    expect(widest(shown)).toBeLessThanOrEqual(80)
  })

  it('has a line for tool errors, when there are many', async () => {
    const { make, show } = folder()
    const made = async (name: string, errors: number): Promise<string> => {
      const tools = [{ name: 'search', calls: 20, errors }]
      const event = { reward: 1, tools, tool_calls: 20, tool_errors: errors }
      await make({ name, rows: 1, items: [{ row: 0, attempt: 0, event }] })
      return (await show([name])).stdout
    }
    expect(await made('few', 1)).not.toContain('Tool errors')
    expect(await made('many', 3)).toMatch(/^Tool errors +15\.0 % .*3 of 20 tool calls$/m)
  })

  const signal = rewarded(Array.from({ length: 5 }, () => [1, 0]))
  const withFirst = (event: MadeItem['event']): MadeItem[] =>
    signal.map((item, at) => (at === 0 ? { ...item, event: { ...item.event, ...event } } : item))

  it.each<[string, readonly MadeItem[]]>([
    ['yes', signal],
    [
      'yes, with losses: 1 without a reward',
      withFirst(failure('http_error', 'The policy did not answer.')),
    ],
    ['yes, with losses: 1 cut off', withFirst({ finish: { length: 1 } })],
    [
      'yes, with losses: 1 cut off, 1 with a rewritten history',
      withFirst({ finish: { length: 1 }, rewritten: 1 }),
    ],
    ['no', withFirst({ calls: 0 })],
    ['no', rewarded(Array.from({ length: 5 }, () => [1, 1]))],
    ['not known with fewer than 5 rows', rewarded([[1, 0]])],
    [
      'not known, because no row has several attempts',
      rewarded(Array.from({ length: 5 }, () => [1])),
    ],
  ])('says "ready to train: %s"', async (verdict, items) => {
    const { make, show } = folder()
    await make({ name: 'airline', rows: 5, n: 2, items })
    const [first = ''] = (await show([])).stdout.split('\n')
    expect(first.split('ready to train: ')[1]).toBe(verdict)
  })
})

describe('the report of a run', () => {
  it('is what eval run --details ends with, and its transcripts can be read at once', async () => {
    const output = temporaryFolder()
    const evaluate = ['eval', 'run', 'configs/eval/echo.toml', '--output', output, '--details']
    const ran = await run([...evaluate, '--name', 'r'], {}, workspace)
    const show = async (...args: readonly string[]): Promise<string> =>
      (await run(['eval', 'show', '--output', output, ...args], {}, workspace)).stdout
    expect(ran.stdout).toBe(`\n${await show('--details')}`)
    expect(ran.stdout).toMatch(/^Pass rate +75\.0 % +6 of 8 have a reward of 1 or more$/m)
    expect((await show('--failed')).split('\n').map((line) => line.split(' ')[0])).toEqual([
      'Rollout',
      '2.1',
      '2.2',
      '',
    ])
    expect(await show('2')).toMatch(
      /^2\.1 {2}reward 0, not passed$[^]*^User {2}step 1$[^]*^Agent {2}step 2/m,
    )
  })

  it('has the figures with their intervals, named as in the statistics', async () => {
    const { make, show } = folder()
    const rewards = Array.from({ length: 20 }, (_, row) => [
      1,
      row % 2,
      row % 4 === 0 ? null : 1,
      0,
    ])
    const location = await make({ name: 'airline', rows: 20, n: 4, items: rewarded(rewards) })
    writeFileSync(path.join(location, 'progress.json'), JSON.stringify({ duration_ms: 10_000 }))
    const { stdout } = await show(['--details'], 100)
    expect(stdout).toContain(
      'airline  finished · 5 of 80 rollouts failed · ready to train: yes, with losses: 5 without a reward\n',
    )
    expect(stdout).toContain('step-200 · 20 rows × 4 attempts = 80 rollouts')
    expect(stdout).toMatch(
      /^Pass rate {4}56\.3 % {3}between \d+\.\d and \d+\.\d %; 45 of 80 have a reward of 1 or more$/m,
    )
    expect(stdout).toMatch(/^Pass@2 +\d+\.\d % +between .* one of 2 passes \(rough: few rows\)/m)
    expect(stdout).toMatch(
      /^Signal +100\.0 % +between 86\.1 and 100\.0 %; 20 of 20 rows with a training signal/m,
    )
    expect(stdout).toMatch(
      /^Tokens +100 +per rollout, median 100, .*; 8,000 written and 80,000 read in all$/m,
    )
    expect(stdout).toMatch(
      /^Time +2\.0 s +per rollout, median 2\.0 s, 95 % within 2\.0 s; 10\.0 s in all, 8\.00 rollouts\/s$/m,
    )
    expect(stdout).not.toContain('Cost')
  })

  it('prints the whole message of a failure, its rollout and what to do', async () => {
    const { make, show } = folder()
    const long = `The tool said: ${'quite a long explanation '.repeat(20)}THE END`
    const refused =
      'The policy endpoint answered 401. Check the API key that the rollout was sent with (llm_api_key).'
    await make({
      name: 'airline',
      rows: 40,
      items: [
        { row: 12, attempt: 0, event: failure('agent_error', long) },
        { row: 13, attempt: 0, event: failure('agent_error', long.replace('quite', 'QUITE')) },
        { row: 14, attempt: 0, event: failure('http_error', refused) },
        { row: 30, attempt: 0, event: failure('timeout', 'The workflow exceeded its 31 s.') },
        { row: 31, attempt: 0, event: failure('timeout', 'The workflow exceeded its 32 s.') },
      ],
    })
    for (const width of ['', ...widths] as const) {
      const shown = await show(['--details'], width)
      const text = shown.stdout.replaceAll(/\s+/g, ' ')
      expect(text).toContain('quite a long explanation THE END')
      expect(text).toContain('2 × timeout, for example 30.1')
      expect(text).toContain('1 × http_error, 14.1')
      expect(text).toContain('--api-key-env names the variable')
      expect(text).not.toContain('llm_api_key')
      expect(text).toContain('agent_workflow_timeout_s = 120 in configs/eval/airline.toml')
      expect(shown.stdout).toMatch(/osmosis eval show \S*airline 12\.1$/m)
      expect(widest(shown)).toBeLessThanOrEqual(width === '' ? Infinity : width)
    }
  })

  it('lists what to look at first, each with the command that shows it', async () => {
    const { make, show } = folder()
    const stuck = {
      tools: [{ name: 'search', calls: 5, errors: 4 }],
      tool_calls: 5,
      tool_errors: 4,
    }
    const items = rewarded(Array.from({ length: 8 }, () => [0])).map((item) => ({
      ...item,
      event: { ...item.event, ...stuck },
    }))
    await make({ name: 'airline', rows: 8, items })
    const { stdout } = await show(['--details'])
    expect(stdout).toContain(
      'Look at first\n! 8 repeat a failing tool call. Mostly search. Mean reward 0.00.\n',
    )
    const [, command = ''] = /^ {2}osmosis (eval show .*is:stuck)$/m.exec(stdout) ?? []
    expect((await run(command.split(' '))).stdout.split('\n')).toHaveLength(10)
  })

  it('ends with the commands that resume the run, show it in a browser and list its failures', async () => {
    const { make, show } = folder()
    const location = await make({ name: 'airline', rows: 4, items: rewarded([[1], [0]]) })
    writeFileSync(
      path.join(location, 'progress.json'),
      JSON.stringify({ status: 'incomplete', incomplete_reason: 'The key was refused.' }),
    )
    const { stdout } = await show(['--details'])
    expect(stdout).toContain('airline  incomplete · ready to train: not known')
    expect(stdout).toContain('\n2 of 4 done\nThe key was refused.\n')
    expect(stdout).toMatch(
      /^Continue +osmosis eval run configs\/eval\/airline\.toml --name airline\n.*the flags it was started with$/m,
    )
    expect(stdout).toMatch(/^All failures +osmosis eval show \S*airline --failed$/m)
    expect(stdout).toMatch(/^First failure +osmosis eval show \S*airline 1\.1$/m)
    expect(stdout).toMatch(/^In the browser +osmosis eval view \S*airline$/m)
  })

  it('prints commands that work in the shell of the user', async () => {
    const { make, output } = folder()
    await make({ name: 'airline', rows: 1, items: rewarded([[0]]) })
    const npx = { npm_config_user_agent: 'npm/11.19.1 node/v24.21.0 linux x64' }
    const { stdout } = await run(['eval', 'show', '--output', output], npx)
    const commands = stdout.match(/(?:npx )?osmosis eval .*/g) ?? []
    expect(commands.filter((line) => !line.startsWith('npx '))).toEqual([])
    expect(commands).toHaveLength(3)
  })

  it('names eval functions', async () => {
    const { make, show } = folder()
    const items = Array.from({ length: 12 }, (_, row) => ({
      row,
      attempt: 0,
      event: { reward: 1, scores: { exact: 1, fluent: 0.5 } },
    }))
    await make({ name: 'both', rows: 12, items })
    const { stdout } = await show(['--details'])
    expect(stdout).toContain('step-200 · 12 rows × 1 attempt = 12 rollouts')
    expect(stdout).toMatch(/^fluent +0\.5 +0\.0 % +between 0\.0 and 22\.1 % +12 of 12$/m)
  })

  it('has everything in it as JSON', async () => {
    const { make, show } = folder()
    await make({ name: 'airline', rows: 2, items: rewarded([[1], [0]]) })
    expect(JSON.parse((await show(['--json'])).stdout)).toMatchObject({
      name: 'airline',
      status: 'finished',
      manifest: { inputs: { model: { name: 'step-200' } } },
      stats: { measure: 'reward' },
      groups: { rows: 2 },
    })
  })
})

const talk: Steps = [
  {
    step_id: 1,
    source: 'system',
    message: Array.from({ length: 30 }, (_, line) => `Rule ${line}`).join('\n'),
  },
  { step_id: 2, source: 'user', message: 'Move me to a window seat.' },
  {
    step_id: 3,
    source: 'agent',
    message: '',
    reasoning_content: 'I look first.',
    tool_calls: [{ tool_call_id: 'a', function_name: 'get_booking', arguments: { id: 'ABC' } }],
    observation: { results: [{ source_call_id: 'a', content: 'Error: no such booking' }] },
    metrics: {
      prompt_tokens: 812,
      completion_tokens: 64,
      extra: { latency_ms: 1234, finish_reason: 'tool_calls' },
    },
  },
  {
    step_id: 4,
    source: 'agent',
    message: 'I could not',
    metrics: {
      prompt_tokens: 900,
      completion_tokens: 1,
      extra: { latency_ms: 500, finish_reason: 'length' },
    },
  },
]

describe('a rollout', () => {
  it('shows its transcript and its outcome', async () => {
    const { make, show } = folder()
    const event = { reward: 0.25, metrics: { polite: 1 }, tool_errors: 1 }
    await make({
      name: 'airline',
      rows: [{ key: 'k', source_row: 7, facets: { task: 'seats' } }],
      items: [{ row: 7, attempt: 0, event, samples: { main: talk }, label: '12A' }],
    })
    expect((await show(['latest', '7.1'], 80)).stdout).toBe(`7.1  reward 0.25, not passed  toolerror
airline · step-200 · row 7 of data/airline.jsonl · task seats
1 model call, 100 tokens written, 1,000 read, 2.0 s
Label  12A
Scores  polite 1

System  step 1
  Rule 0
  Rule 1
  Rule 2
  Rule 3
  … 26 more lines (--full)

User  step 2
  Move me to a window seat.

Agent  step 3, 64 tokens after 812, 1.2 s
  I look first.
  → get_booking(id: "ABC")
  ← Error: no such booking

Agent  step 4, 1 token after 900, 0.5 s  cut off (length)
  I could not
`)
    expect((await show(['latest', '7.1', '--full'])).stdout).toContain('\n  Rule 29\n')
  })

  it.each<[string, object]>([
    ['arguments', { tool_calls: [{ function_name: 'f', arguments: null }] }],
    ['the name of a tool', { tool_calls: [{ function_name: {}, arguments: 7 }] }],
    ['tool calls', { tool_calls: 'x' }],
    ['results', { observation: { results: [null] } }],
    ['thinking', { reasoning_content: { a: 1 } }],
  ])(
    'shows a step as plain text whose %s are not those of a step, and all others',
    async (_name, odd) => {
      const { make, show } = folder()
      const steps = [
        { step_id: 1, source: 'user', message: 'before' },
        { step_id: 2, source: 'agent', message: 'odd', ...odd },
        { step_id: 3, source: 'agent', message: 'after' },
      ] as unknown as Steps
      await make({ name: 'r', rows: 1, items: [{ row: 0, attempt: 0, samples: { main: steps } }] })
      const { code, stdout } = await show(['r', '0.1'])
      expect(code).toBe(0)
      for (const text of ['before', 'odd', 'after']) expect(stdout).toContain(text)
    },
  )

  it('has colours where they are wanted: errors are red, reasoning is dimmed', async () => {
    const { make, output } = folder()
    await make({
      name: 'airline',
      rows: 1,
      items: [{ row: 0, attempt: 0, samples: { main: talk } }],
    })
    const args = ['eval', 'show', '--output', output, 'latest', '0.1']
    const { stdout } = await run(args, { FORCE_COLOR: '1', COLUMNS: '80' })
    expect(stdout).toContain('\u001B[31mError: no such booking\u001B[39m')
    expect(stdout).toContain('\u001B[2m  I look first.\u001B[22m')
    expect(stdout).toContain('\u001B[33mcut off (length)\u001B[39m')
    expect((await run(args, { NO_COLOR: '1' })).stdout).not.toContain('\u001B')
  })

  it('is found by its row alone: its attempts, and the first that did not pass', async () => {
    const { make, show } = folder()
    await make({
      name: 'airline',
      rows: 2,
      n: 3,
      items: rewarded([
        [1, 0, 0.5],
        [1, 1, 1],
      ]),
    })
    const { stdout } = await show(['airline', '0'])
    expect(stdout).toMatch(/^0\.1 +1 +Answer 0\.0\.$/m)
    expect(stdout).toMatch(/\n\n0\.2 {2}reward 0, not passed\n/)
    expect((await show(['0'])).stdout).toBe(stdout)
    expect((await show(['1'])).stdout).toMatch(/\n\n1\.1 {2}reward 1, passed\n/)
  })

  it('shows arguments in lines, long results folded, and long errors whole', async () => {
    const { make, show } = folder()
    const lines = Array.from({ length: 40 }, (_, line) => `line ${line}`).join('\n')
    const step = (name: string, content: string): Steps[number] => ({
      step_id: 1,
      source: 'agent',
      message: '',
      tool_calls: [
        {
          tool_call_id: name,
          function_name: name,
          arguments: { code: 'a = 1\nb = 2', deep: { x: [1] } },
        },
      ],
      observation: { results: [{ source_call_id: name, content }] },
    })
    const samples = { first: [step('fine', lines)], second: [step('broken', `Error: ${lines}`)] }
    await make({
      name: 'airline',
      rows: 1,
      items: [{ row: 0, attempt: 0, samples, event: { samples: { first: 1, second: 0 } } }],
    })
    const { stdout } = await show(['0.1'])
    expect(stdout).toContain('── first, reward 1 ──')
    expect(stdout).toContain(
      '  → fine\n      code:\n        a = 1\n        b = 2\n      deep: {"x":[1]}\n',
    )
    expect(stdout).toContain('    line 11\n    … 28 more lines (--full)\n')
    expect(stdout).toMatch(/← Error: line 0\n(?: +line \d+\n)+ +line 39\n/)
  })

  it('reports a missing or damaged transcript, and a rollout without model calls', async () => {
    const { make, show } = folder()
    const location = await make({
      name: 'airline',
      rows: 2,
      items: [
        { row: 0, attempt: 0 },
        { row: 1, attempt: 0, samples: null },
      ],
    })
    expect((await show(['1.1'])).stdout).toContain(
      'No transcript: the rollout never called the policy.',
    )
    const segment = path.join(location, 'trajectories/0000.jsonl')
    writeFileSync(segment, 'x'.repeat(10_000))
    expect((await show(['0.1'])).stdout).toContain('The transcript is damaged')
    rmSync(segment)
    expect((await show(['0.1'])).stdout).toContain('The transcript is missing')
    expect(JSON.parse((await show(['0.1', '--json'])).stdout)).toMatchObject({
      items: [{ item: '0.1', transcript: 'missing', samples: {} }],
    })
  })

  it('is a document of the Agent Trajectory Interchange Format in JSON', async () => {
    const { make, show } = folder()
    await make({
      name: 'airline',
      rows: 1,
      items: [{ row: 0, attempt: 0, samples: { main: talk } }],
    })
    expect(JSON.parse((await show(['0.1', '--json'])).stdout)).toMatchObject({
      run: 'airline',
      items: [
        {
          item: '0.1',
          passed: true,
          transcript: 'found',
          event: { reward: 1, source_row_index: 0 },
          samples: { main: { schema_version: 'ATIF-v1.7', steps: talk } },
        },
      ],
    })
  })

  it('is named when there is none', async () => {
    const { make, show } = folder()
    await make({ name: 'airline', rows: 3, n: 2, items: rewarded([[1], [0]]) })
    const error = async (name: string): Promise<string> => {
      const { code, stderr } = await show(['airline', name])
      expect(code).toBe(2)
      return stderr
    }
    expect(await error('9')).toBe('error: Row 9 is not in airline, which has the rows 0-2.\n')
    expect(await error('2')).toBe('error: No rollout of row 2 has ended in airline yet.\n')
    expect(await error('0.2')).toBe('error: airline has no rollout 0.2, but 0.1.\n')
    expect(await error('first')).toMatch(/^error: A rollout is named by its row, counted from 0/)
  })

  it('obeys nothing that the policy wrote', async () => {
    const { make, show } = folder()
    const hostile =
      '\u001B]0;owned\u0007\u001B[2J\u001B[31mred\u001B[0m \u202Edesrever\u202C \u0000\u009B1m\rover עברית'
    const samples: Readonly<Record<string, Steps>> = {
      'main\u001B[1m': [
        {
          step_id: 1,
          source: 'agent',
          message: hostile,
          tool_calls: [
            { tool_call_id: 'a', function_name: hostile, arguments: { [hostile]: `${hostile}\n` } },
          ],
          observation: { results: [{ source_call_id: 'a', content: hostile }] },
          metrics: { extra: { finish_reason: hostile } },
        },
      ],
    }
    const event = {
      ...failure(`bad\u001B[1m`, hostile),
      summary: hostile,
      metrics: { [hostile]: 1 },
    }
    await make({
      name: 'airline',
      rows: [{ key: 'k', source_row: 0, facets: { [hostile]: hostile } }],
      items: [{ row: 0, attempt: 0, samples, event, label: hostile }],
      inputs: { name: hostile },
    })
    for (const args of [[], ['--details'], ['0.1'], ['--failed']]) {
      for (const width of ['', 60] as const) {
        const { stdout } = await show(args, width)
        expect(stdout).toContain('עברית')
        expect(stdout).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u)
      }
    }
  })
})

describe('a list of rollouts', () => {
  it('has what a filter selects, in its order, with the flags of each', async () => {
    const { make, show } = folder()
    const tools = [{ name: 'search', calls: 6, errors: 5 }]
    const stuck = { reward: 0, tools, tool_calls: 6, tool_errors: 5, summary: 'Sorry,\nI give up.' }
    await make({
      name: 'airline',
      rows: 3,
      n: 2,
      items: [
        ...rewarded([
          [1, 1],
          [1, null],
        ]),
        { row: 2, attempt: 0, event: { ...stuck, completion_tokens: 5 } },
        { row: 2, attempt: 1, event: { ...stuck, completion_tokens: 7 } },
      ],
    })
    const { stdout, stderr } = await show(['--filter', 'is:stuck tool:search', '--sort', '-tokens'])
    expect(stdout).toBe(`Rollout  Reward  Flags     Ends with
2.2           0  stuck ×5  Sorry, I give up.
2.1           0  stuck ×5  Sorry, I give up.
`)
    expect(stderr).toMatch(/^Found 2 of 6 rollouts\. Read the first: osmosis eval show \S+ 2\.2\n$/)
    expect((await show(['--failed'])).stdout.split('\n').map((line) => line.split(' ')[0])).toEqual(
      ['Rollout', '1.2', '2.1', '2.2', ''],
    )
    expect((await show(['--failed'], 60)).stdout).toContain('timeout')
    expect(JSON.parse((await show(['--failed', '--json'])).stdout)).toMatchObject({
      count: 3,
      items: [{ item: '1.2', value: null, passed: false, flags: ['failed'] }, {}, {}],
    })
    expect(await show(['--filter', 'is:passed is:failed'])).toMatchObject({ code: 0, stdout: '' })
  })

  it('names an image of a conversation, and prints none of its bytes', async () => {
    const { make, show } = folder()
    const dataUrl =
      'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const image = { type: 'image', source: { media_type: 'image/png', path: dataUrl } }
    const message = [{ type: 'text', text: 'Look:' }, image]
    const samples = { main: [{ step_id: 1, source: 'user', message }] as Steps }
    await make({ name: 'seen', rows: 1, items: [{ row: 0, attempt: 0, samples }] })
    const { stdout } = await show(['latest', '0.1'])
    expect(stdout).toContain('[image 1×1]')
    expect(stdout).not.toContain('iVBOR')
  })

  it('finds words that were said in the middle of a conversation', async () => {
    const { make, show } = folder()
    const samples = { main: [{ ...talk[1], step_id: 1, message: 'A Zebra asks.' }] as Steps }
    await make({
      name: 'airline',
      rows: 2,
      items: [
        { row: 0, attempt: 0 },
        { row: 1, attempt: 0, samples },
      ],
    })
    const { stdout } = await show(['--filter', 'zebra'])
    expect(stdout).toMatch(/^1\.1 /m)
    expect(stdout).not.toMatch(/^0\.1 /m)
  })

  it('may be read in part: the command ends well when its reader does', async () => {
    const { make, output } = folder()
    const rewards = Array.from({ length: 1000 }, () => [0, 0, 0, 0])
    await make({ name: 'large', rows: 1000, n: 4, items: rewarded(rewards) })
    const command = [process.execPath, bin, 'eval', 'show', '--output', output, '--failed']
    const script = `set -o pipefail; ${command.join(' ')} | head -2; echo "\${PIPESTATUS[0]}"`
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script])
    expect(stdout.split('\n').map((line) => line.split(' ')[0])).toEqual([
      'Rollout',
      '0.1',
      '0',
      '',
    ])
    expect(stderr).toMatch(/^Found 4,000 of 4,000 rollouts\. .*\n$/)
  })

  it('refuses a filter that it does not understand', async () => {
    const { make, show } = folder()
    await make({ name: 'airline', rows: 1, items: rewarded([[1]]) })
    expect(await show(['--filter', 'is:stuk'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/Unknown state "is:stuk"\. Use one of: passed, /),
    })
    expect((await show(['latest', '0.1', '--failed'])).code).toBe(2)
  })

  it('is there at once for 5,000 rollouts', { tags: 'slow' }, async () => {
    const { make, show } = folder()
    const rewards = Array.from({ length: 1250 }, (_, row) => [row % 2, 1, 0, 1])
    await make({ name: 'large', rows: 1250, n: 4, items: rewarded(rewards) })
    const started = performance.now()
    const { stdout } = await show(['--failed'], 80)
    expect(stdout.split('\n')).toHaveLength(1 + 1875 + 1)
    await show([])
    expect(performance.now() - started).toBeLessThan(10_000)
  })
})
