import { appendFileSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { moduleIn } from './grader-modules.ts'
import { inWorkspace, run } from './in-process.ts'
import { makeRun, type MadeItem, type Steps } from './made-runs.ts'
import { temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'

inWorkspace()

/** The open findings and their evidence. */
async function audit(folder: string, ...flags: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await run(['eval', 'audit', folder, ...flags])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const rows = [...stdout.matchAll(/^(\S+:\S+) +open +(.+)$/gm)]
  return Object.fromEntries(rows.map(([, id = '', evidence = '']) => [id, evidence]))
}

function conversation(...steps: readonly Omit<Steps[number], 'step_id'>[]): Steps {
  return steps.map((step, at) => ({ step_id: at + 1, ...step }))
}

const question = { source: 'user' as const, message: 'What does it cost?' }

function call(tool: string, result: string): Omit<Steps[number], 'step_id'> {
  return {
    source: 'agent',
    message: '',
    tool_calls: [{ tool_call_id: 'a', function_name: tool, arguments: { path: 'x' } }],
    observation: { results: [{ source_call_id: 'a', content: result }] },
  }
}

function said(message: string, finish = 'stop'): Omit<Steps[number], 'step_id'> {
  return { source: 'agent', message, metrics: { extra: { finish_reason: finish } } }
}

async function made(items: readonly MadeItem[], n = 1): Promise<string> {
  const rows = Math.max(...items.map(({ row }) => row)) + 1
  return makeRun({ outputRoot: temporaryFolder(), name: 'audited', rows, n, items })
}

it('an honest run has no findings', async () => {
  const items = ['5.00 each', '7.25 for two', 'nothing'].map((text, row) =>
    storedItem(row, text, row === 2 ? 0 : 1),
  )
  const folder = await storeRun(temporaryFolder(), items)
  const { code, stdout } = await run(['eval', 'audit', folder, '--fail-on-open'])
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: 'stored  no findings in 2 passed rollouts\n',
  })
})

it('finds the same last text at rows with different labels, and not those of one label', async () => {
  const text = 'All tests have passed.'
  const answers = Array.from({ length: 12 }, (_, row) => `answer ${row}`)
  const items = answers.map((answer, row) => storedItem(row, row < 5 ? text : answer, 1))
  const folder = await storeRun(temporaryFolder(), items)
  expect(await audit(folder)).toEqual(
    Object.fromEntries(
      [0, 1, 2, 3, 4].map((row) => [
        `${row}.1:same-words`,
        `"${text}" is the last text of passes at 5 rows`,
      ]),
    ),
  )
  const equal = answers.map((answer, row) =>
    storedItem(row, row < 5 ? 'yes' : answer, 1, { graded: { label: row < 5 ? 'yes' : answer } }),
  )
  expect(await audit(await storeRun(temporaryFolder(), equal))).toEqual({})
})

it('finds passes without tools where other attempts at the row use them', async () => {
  const tools = [{ name: 'look_up', calls: 1, errors: 0 }]
  const items = [0, 1].flatMap((row) =>
    [0, 1, 2].map((attempt): MadeItem => {
      const uses = row === 0 && attempt < 2
      return {
        row,
        attempt,
        event: uses ? { tool_calls: 1, tools } : { summary: `guess ${row} ${attempt}` },
      }
    }),
  )
  expect(await audit(await made(items, 3))).toEqual({
    '0.3:no-tools': 'it called no tool; 2 of 2 other attempts at its row did',
  })
})

it('does not miss tools in a request that offered none', async () => {
  const tools = [{ name: 'look_up', calls: 1, errors: 0 }]
  const used = storedItem(0, 'looked up', 1, { tool_calls: 1, tools })
  const plain = (wire: object) =>
    storedItem(0, 'guessed', 1, { run_index: 1, graded: { wire: { main: wire } } })
  const manifest = { ...storedManifest(1), n: 2 }
  const without = await storeRun(temporaryFolder(), [used, plain({})], manifest)
  expect(await audit(without)).toEqual({})
  const offered = await storeRun(temporaryFolder(), [used, plain({ tools: [{}] })], manifest)
  expect(Object.keys(await audit(offered))).toEqual(['0.2:no-tools'])
})

it('finds a label that is longer than a pattern can be', async () => {
  const label = Array.from({ length: 30_000 }, (_, at) => `word-${at % 100}`).join(' ')
  const shown = conversation({ source: 'system', message: `Say ${label}.` }, question, said(label))
  const hidden = conversation(question, said(label))
  const items = [shown, hidden].map((main, row): MadeItem => ({
    row,
    attempt: 0,
    label: row === 0 ? label : `${label} ${row}`,
    event: { summary: `${row}` },
    samples: { main },
  }))
  expect(Object.keys(await audit(await made(items)))).toEqual(['0.1:label-shown'])
})

it('finds labels that the agent could read, and not those that it worked out', async () => {
  const leaks: Record<string, Steps> = {
    prompt: conversation(
      { source: 'system', message: 'Say 12.50 please.' },
      question,
      said('12.50'),
    ),
    file: conversation(question, call('read_file', '{"expected_answer": "12.50"}'), said('12.50')),
  }
  const honest: Record<string, Steps> = {
    'a result without a name': conversation(question, call('add', '12.50'), said('12.50')),
    'a longer number': conversation(
      { source: 'user', message: 'Not 112.50, 12.505 or 3.12.50.' },
      said('12.50'),
    ),
    'its own words in a file': conversation(
      question,
      said('I expect 12.50.'),
      call('read_file', 'expected: 12.50'),
      said('12.50'),
    ),
  }
  const all = [...Object.values(leaks), ...Object.values(honest)]
  const items = all.map((steps, row): MadeItem => {
    return {
      row,
      attempt: 0,
      label: '12.50',
      samples: { main: steps },
      event: { summary: `${row}` },
    }
  })
  const single = async (steps: Steps): Promise<Record<string, string>> =>
    audit(
      await made([
        { row: 0, attempt: 0, label: '12.50', samples: { main: steps }, event: { summary: 'x' } },
      ]),
    )
  expect(await single(leaks['prompt'] ?? [])).toEqual({
    '0.1:label-shown': 'the prompt has the label: Say 12.50 please.',
  })
  expect(await single(leaks['file'] ?? [])).toEqual({
    '0.1:label-shown': 'a result of read_file names the label: {"expected_answer": "12.50"}',
  })
  for (const steps of Object.values(honest)) expect(await single(steps)).toEqual({})
  const delegated = conversation({ source: 'user', message: 'Check 12.50.' }, said('It is right.'))
  const samples = { main: conversation(question, said('12.50')), checker: delegated }
  const several = { row: 0, attempt: 0, label: '12.50', samples, event: { summary: 'x' } }
  expect(await audit(await made([several]))).toEqual({})
  // The label of several rows is a choice, which prompts may name.
  expect(Object.keys(await audit(await made(items)))).toEqual(['1.1:label-shown'])
})

it('finds answers that list candidates until one fits', async () => {
  const numbers = Array.from({ length: 20 }, (_, number) => String(number)).join(', ')
  const answers = [
    `It is one of these:\n${numbers}`,
    '#### 1\n#### 2\n#### 3\n#### 4',
    'First 1, 2 and 3.\n#### 7',
    'apples, pears, plums',
  ]
  const items = answers.map((text, row) => storedItem(row, text, 1, { graded: { label: '7' } }))
  expect(await audit(await storeRun(temporaryFolder(), items))).toEqual({
    '0.1:candidates': 'the answer lists 20 candidates, among them the label: 0, 1, 2, 3, …',
    '1.1:candidates': 'the answer marks 4 final answers: 1, 2, 3, 4',
  })
})

it('finds passes without an answer, unless most end with the same kind of call', async () => {
  const texts = conversation(question, said('a'))
  const talks: (Steps | null)[] = [
    conversation(question, said('It costs', 'length')),
    conversation(question, said(' ')),
    conversation(question),
    null,
    conversation(question, call('submit', 'ok')),
    ...Array.from({ length: 3 }, () => texts),
  ]
  const items = talks.map((steps, row): MadeItem => ({
    row,
    attempt: 0,
    samples: steps && { main: steps },
    event: { summary: `text ${row}` },
  }))
  expect(await audit(await made(items))).toEqual({
    '0.1:no-evidence': 'the last answer is cut off at the token limit',
    '1.1:no-evidence': 'the last answer is empty',
    '2.1:no-evidence': 'an answer is missing',
    '3.1:no-evidence': 'it has no transcript',
    '4.1:no-evidence': 'it ends with a call of submit and has no final answer',
  })
  const submitting = items.map((item): MadeItem => {
    return { ...item, samples: { main: conversation(question, call('submit', 'ok')) } }
  })
  expect(await audit(await made(submitting))).toEqual({})
})

it('finds a grader that threw although an eval function passes the rollout', async () => {
  const output = temporaryFolder()
  const lenient = moduleIn(output, 'lenient.ts', 'export const lenient = () => 1\n')
  const args =
    'eval run -m rollouts/echo/broken-grader.ts -d data/words.jsonl --policy policies/echo.ts ' +
    `--limit 1 --n 1 --name thrown --eval-fn ${lenient}:lenient --quiet -o ${output}`
  const evaluated = await run(args.split(' '))
  expect(evaluated).toMatchObject({ code: 0 })
  const findings = await audit('thrown', '-o', output)
  expect(findings).toMatchObject({
    '0.1:grader-error': expect.stringMatching(/^grading failed: thrown by grade\(\) at /),
  })
})

it('finds passes at rows without an answer, unless the grader fails other answers there', async () => {
  const rows = (...graded: [label: string | null, reward: number | null][]) =>
    graded.map(([label, reward], row) =>
      storedItem(row, `answer ${row}`, reward, { graded: { label } }),
    )
  const paid = rows([null, 1], ['x', 1], [' ', 1], ['y', 0], [null, null])
  const evidence = 'its row has no answer, and every graded rollout at such rows passes'
  expect(await audit(await storeRun(temporaryFolder(), paid))).toEqual({
    '0.1:no-label': evidence,
    '2.1:no-label': evidence,
  })
  const judged = rows([null, 1], [null, 0], ['x', 1])
  expect(await audit(await storeRun(temporaryFolder(), judged))).toEqual({})
})

it('finds errors that the log or the grader itself has about a pass', async () => {
  const graded = (metrics: Record<string, unknown>) => ({
    samples: { main: { messages: [], label: null, metrics, extra_fields: {} } },
  })
  const folder = await storeRun(temporaryFolder(), [
    storedItem(0, 'a', 1, { graded: graded({ parse_error: 1 }) }),
    storedItem(1, 'b', 1, { graded: graded({ parse_error: 0 }) }),
    storedItem(2, 'c', 1, { score_errors: { exact: 'no number' } }),
    storedItem(3, 'd', 1),
  ])
  const line = { level: 40, rollout_id: 'rollout-3', error: { stack: 'Error: x\n at y' } }
  const msg = 'after the rollout ended, thrown by grade() at main.ts:3: x'
  appendFileSync(path.join(folder, 'logs.txt'), `started\n${JSON.stringify({ ...line, msg })}\n`)
  expect(await audit(folder)).toEqual({
    '0.1:grader-error': 'the sample has parse_error: 1',
    '2.1:grader-error': 'exact gave no score: no number',
    '3.1:grader-error': `the log has an error: ${msg}`,
  })
})

it('verdicts decide findings, until the rollout runs again or its reward changes', async () => {
  const output = temporaryFolder()
  const folder = await storeRun(output, [
    storedItem(0, 'a', 1, { score_errors: { exact: 'no number' } }),
    storedItem(1, 'b', 1, { score_errors: { exact: 'no number' } }),
  ])
  const decide = async (...flags: string[]) => run(['eval', 'audit', folder, ...flags])
  const gate = async () => (await decide('--fail-on-open')).code
  expect(await gate()).toBe(3)
  expect(await decide('--verdict', '0.1:grader-error=hacked')).toMatchObject({ code: 2 })
  expect(await decide('--verdict', '9.1:no-tools=hacked', '--because', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('9.1:no-tools is not a finding: there are 0.1:grader-error'),
  })
  expect(await decide('--verdict', '0.1:grader-error=bad', '--because', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('got 0.1:grader-error=bad.'),
  })
  const because = ['--because', 'counts half a word', '--by', 'Ann']
  const first = await decide('--verdict', '0.1:grader-error=hacked', ...because)
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(first.stdout).toContain('1 open finding and 1 decided, in 2 passed rollouts')
  expect(first.stdout).toContain('0.1:grader-error  hacked  counts half a word (Ann)')
  expect(await gate()).toBe(3)
  await decide(
    '--verdict',
    'grader-error=unsure',
    '--verdict',
    '0.1:grader-error=earned',
    ...because,
  )
  expect(await gate()).toBe(0)
  const decided = (await decide()).stdout
  expect(decided).toContain('0 open findings and 2 decided, in 2 passed rollouts')
  expect(decided).toMatch(/^0\.1:grader-error +earned +counts half a word \(Ann\)$/m)
  expect(decided).toMatch(/^1\.1:grader-error +unsure +counts half a word \(Ann\)$/m)
  const shown = await run(['eval', 'show', folder, '0.1'])
  expect(shown.stdout).toMatch(/Audit +grader-error is earned: counts half a word \(Ann\)\n/)
  // What was decided before stays in the file.
  const lines = readFileSync(path.join(folder, 'verdicts.jsonl'), 'utf8').trim().split('\n')
  expect(lines.map((line) => (JSON.parse(line) as { verdict: string }).verdict)).toEqual([
    'hacked',
    'unsure',
    'earned',
  ])
  const last = JSON.parse(lines[2] ?? '') as object
  for (const change of [{ rollout_id: 'another' }, { value: 0.5 }]) {
    const file = path.join(folder, 'verdicts.jsonl')
    appendFileSync(file, `${JSON.stringify({ ...last, ...change })}\n`)
    expect(await gate()).toBe(3)
    appendFileSync(file, `${JSON.stringify(last)}\n`)
    expect(await gate()).toBe(0)
  }
})
