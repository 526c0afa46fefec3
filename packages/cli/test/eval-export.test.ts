import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'

import { validateTrajectory } from '@osmosis/protocol/trajectory'
import { expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'

inWorkspace()

function jsonLines(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as unknown)
}

it('eval export writes the conversations of passed rollouts as they went over the wire', async () => {
  const output = temporaryFolder()
  const flags = '--policy adding --quiet --name loop --rows 0 --n 1'.split(' ')
  const args = ['eval', 'run', 'configs/eval/adder.toml', '--output', output]
  const evaluation = await run([...args, ...flags])
  expect(evaluation.code).toBe(0)
  const sft = path.join(output, 'out/exported.jsonl')
  const { code, stdout } = await run(['eval', 'export', 'loop', '--sft', sft, '-o', output])
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${sft}: 1 conversation\n` })
  const [exported] = jsonLines(sft) as { messages: { role: string }[]; tools: unknown[] }[]
  expect(exported?.messages.map(({ role }) => role)).toEqual([
    'user',
    'assistant',
    'tool',
    'assistant',
  ])
  // As they were sent, which is not quite what the loop says.
  expect(exported?.tools).toMatchObject([
    { type: 'function', function: { name: 'add', strict: false, parameters: { required: [] } } },
  ])
})

it('eval export writes samples of workflows to stdout, by default only those that passed', async () => {
  const output = temporaryFolder()
  const name = ['--name', 'echo', '--output', output, '--quiet']
  await run(['eval', 'run', 'configs/eval/echo.toml', ...name])
  const passed = await run(['eval', 'export', 'echo', '--sft', '-', '-o', output])
  expect(passed.stderr).toBe('stdout: 6 conversations\n')
  expect(JSON.parse(passed.stdout.split('\n')[0] ?? '')).toEqual({
    messages: [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'ONE' },
    ],
  })
  const lost = ['--sft', '-', '--filter', 'is:notpassed', '-o', output]
  const notPassed = await run(['eval', 'export', 'echo', ...lost])
  expect(notPassed.stdout.match(/I do not know/g)).toHaveLength(2)
})

it('eval export writes a valid document for each sample, under names that no id can bend', async () => {
  const output = temporaryFolder()
  const [own, other] = [storedItem(0, 'zero', 1), storedItem(1, 'one', 0)]
  const document = own.trajectories?.['main']
  if (document === undefined) throw new Error('expected a document')
  const trajectories = { '../../a': document, A: document, a: document }
  const samples = { '../../a': 1, A: 0.5, a: null }
  const items = [{ ...own, event: { ...own.event, samples }, trajectories }, other]
  const folder = await storeRun(output, items)
  const atif = path.join(output, 'documents')
  const { code, stdout } = await run(['eval', 'export', folder, '--atif', atif])
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${atif}: 4 documents\n` })
  const names = readdirSync(atif).toSorted()
  expect(names).toEqual(['0.1.A.json', '0.1.______a.json', '0.1.a-2.json', '1.1.json'])
  const documents = names.map(
    (name) =>
      JSON.parse(readFileSync(path.join(atif, name), 'utf8')) as {
        extra: { osmosis: { reward?: number } }
      },
  )
  expect(documents.flatMap((each) => validateTrajectory(each))).toEqual([])
  expect(documents.map(({ extra }) => extra.osmosis.reward)).toEqual([0.5, 1, undefined, 0])
})

it('eval export writes a table that spreadsheets do not run', async () => {
  const output = temporaryFolder()
  const folder = await storeRun(output, [
    storedItem(0, '=HYPERLINK("http://x","y")', 1, { metrics: { '@exact': -1 } }),
    storedItem(1, 'two\nlines, and "quotes"', -0.5),
    storedItem(2, '', null, { error_message: '-1 is not an index', graded: null }),
  ])
  await run(['eval', 'note', folder, '1.1', 'wrong tool', '--tag', '+tool'])
  const csv = path.join(output, 'table.csv')
  expect(await run(['eval', 'export', folder, '--csv', csv])).toMatchObject({ code: 0 })
  const text = readFileSync(csv, 'utf8')
  expect(text.endsWith('\r\n')).toBe(true)
  const [head, ...lines] = text.split('\r\n')
  expect(head?.split(',').slice(0, 9)).toEqual([
    ...'row attempt row_key rollout_id model status passed reward'.split(' '),
    'metric.@exact',
  ])
  expect(lines[0]).toMatch(/^0,1,row-0,rollout-0,scripted,success,true,1,-1,/)
  expect(lines[0]).toMatch(/,"'=HYPERLINK\(""http:\/\/x"",""y""\)"$/)
  expect(lines[1]).toContain(',\'+tool,wrong tool,"two\nlines, and ""quotes"""')
  expect(lines[2]).toContain(",failed,false,,,agent_error,'-1 is not an index,")
})

it('eval export takes the rewards of a re-grading', async () => {
  const output = temporaryFolder()
  const folder = await storeRun(output, [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)])
  const grader = 'rollouts/agent-loops/rewards.ts:closeness'
  await run(['eval', 'regrade', folder, '--grader', grader, '--as', 'near'])
  const { stdout } = await run(['eval', 'export', `${folder}@near`, '--csv', '-'])
  // A text is not a number, so the function gives no score.
  expect(stdout).toMatch(/^1,1,row-1,rollout-1,scripted,failed,false,,/m)
  const none = await run(['eval', 'export', folder, '--grading', 'far', '--csv', '-'])
  expect(none).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no stored@far: there are stored@near.'),
  })
})

it('eval export replaces existing files only with --force', async () => {
  const output = temporaryFolder()
  const folder = await storeRun(output, [storedItem(0, 'zero', 1)])
  const csv = path.join(output, 'table.csv')
  const atif = path.join(output, 'documents')
  const args = ['eval', 'export', folder, '--csv', csv, '--atif', atif]
  expect(await run(args)).toMatchObject({ code: 0 })
  expect(await run(args)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('table.csv exists already. Pass --force'),
  })
  expect(await run(['eval', 'export', folder, '--atif', atif])).toMatchObject({ code: 2 })
  expect(await run([...args, '--force'])).toMatchObject({ code: 0 })
  expect(await run(['eval', 'export', folder])).toMatchObject({ code: 2 })
  expect(await run(['eval', 'export', folder, '--csv', '-', '--sft', '-'])).toMatchObject({
    code: 2,
  })
  expect(existsSync(path.join(output, 'table.csv'))).toBe(true)
})

it('eval export omits and counts rollouts without model calls and missing transcripts', async () => {
  const output = temporaryFolder()
  const { wire: _, ...unheard } = storedItem(0, 'zero', 1).graded ?? {}
  const item = storedItem(0, 'zero', 1)
  const folder = await storeRun(output, [
    { ...item, graded: item.graded && { ...item.graded, ...unheard, wire: {} } },
    storedItem(1, 'one', 1, { graded: null }),
    storedItem(2, 'two', 1, { graded: { wire: { main: { messages: [{ role: 'user' }] } } } }),
  ])
  const { code, stderr, stdout } = await run(['eval', 'export', folder, '--sft', '-'])
  expect({ code, stderr, stdout }).toEqual({
    code: 0,
    stdout: '{"messages":[{"role":"user"}]}\n',
    stderr: 'stdout: 1 conversation; left out: 1 that never called the policy, 1 without samples\n',
  })
})

it('eval note keeps what the viewer shows; the last note of a rollout counts', async () => {
  const output = temporaryFolder()
  const folder = await storeRun(output, [storedItem(0, 'zero', 1), storedItem(1, 'one', 1)])
  const note = async (...args: string[]) => run(['eval', 'note', ...args])
  expect(await note(folder, '1.1', 'first thoughts')).toMatchObject({ code: 0 })
  await note(folder, '1.1', 'asks\ntwice', '--tag', 'loop')
  const notes = await note(folder)
  expect(notes).toMatchObject({ code: 0, stdout: '1.1  [loop] asks twice\n' })
  const asJson = await note(folder, '--json')
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    run: 'stored',
    notes: [{ source_row_index: 1, run_index: 0, tag: 'loop', text: 'asks\ntwice' }],
  })
  await note(folder, '1.1')
  expect((await note(folder)).stdout).toBe('')
  expect(await note(folder, '7.1', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Row 7 is not in stored'),
  })
  expect(await note(folder, 'seven', 'x')).toMatchObject({ code: 2 })
})

it('eval export writes the rows of rollouts as the dataset has them, once each and in its order', async () => {
  const output = temporaryFolder()
  const dataset = path.join(output, 'words.jsonl')
  const lines = ['one', 'two', 'three?', 'four'].map(
    (word, at) => `{"id":"w${at}","user_prompt":"${word}","ground_truth":"${word}","weight":1.0}`,
  )
  writeFileSync(dataset, lines.join('\n'))
  const name = ['--name', 'rows', '--output', output]
  await run(['eval', 'run', 'configs/eval/echo.toml', ...name, '--quiet', '--dataset', dataset])
  const args = ['eval', 'export', 'rows', '--rows', '-', '-o', output]
  const missed = await run([...args, '--filter', 'is:notpassed'])
  expect(missed.stdout.trimEnd().split('\n')).toEqual([lines[2]])
  const whole = await run(args)
  expect([whole.stdout, whole.stderr]).toEqual([`${lines.join('\n')}\n`, 'stdout: 4 rows\n'])

  const moved = path.join(temporaryFolder(), 'words.jsonl')
  renameSync(dataset, moved)
  const lost = await run(args)
  expect(lost.code).toBe(2)
  expect(lost.stderr).toContain(`${dataset}, which was moved or changed since.`)
  const found = await run([...args, '--dataset', moved])
  expect(found.stdout).toBe(whole.stdout)
  appendFileSync(moved, '\n')
  expect((await run([...args, '--dataset', moved])).code).toBe(2)
})

it('eval export writes no two exports to one place', async () => {
  const output = temporaryFolder()
  await storeRun(output, [storedItem(0, 'a', 1)])
  const file = path.join(output, 'exported')
  const args = ['eval', 'export', 'stored', '-o', output, '--force']
  for (const other of ['--rows', '--junit', '--sft', '--atif']) {
    const two = await run([...args, '--csv', file, other, `${output}/./exported`])
    expect([two.code, two.stderr]).toEqual([
      2,
      expect.stringContaining(`Two exports would be written to ${file}.`),
    ])
  }
  expect(existsSync(file)).toBe(false)
})

it('eval export says that a run of train() names no dataset', async () => {
  const output = temporaryFolder()
  const dataset = { name: 'rows', sha256: '' }
  await storeRun(output, [storedItem(0, 'a', 1)], storedManifest(1, {}, { dataset }))
  const { code, stderr } = await run(['eval', 'export', 'stored', '--rows', '-', '-o', output])
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('A program passed the rows of stored to train()'),
  ])
})
