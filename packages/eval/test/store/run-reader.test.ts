import { appendFile, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'

import {
  archiveRun,
  createRun,
  type EndedItem,
  type Grade,
  itemKey,
  listRuns,
  openRun,
  resumeRun,
  type RunReader,
  type RunStore,
} from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import { madeManifest, temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'
import { itemOf } from './runs.ts'

async function newRun(): Promise<RunStore> {
  return createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
}

async function found(reader: RunReader, text: string, signal?: AbortSignal): Promise<string[]> {
  const keys: string[] = []
  for await (const event of reader.search(text, signal ? { signal } : {})) keys.push(itemKey(event))
  return keys
}

it('follows a run while it is written, and reads every line once', async () => {
  const store = await newRun()
  const reader = await openRun(store.location)
  const written = new AbortController()
  const seen: ItemEvent[] = []
  const following = (async () => {
    while (!written.signal.aborted) {
      for (const event of await reader.refresh()) {
        seen.push(event)
        expect((await reader.trajectories(event)).state).toBe('found')
      }
    }
  })()
  await Promise.all(
    Array.from({ length: 8 }, async (_, attempt) => {
      for (let row = 0; row < 100; row += 1) await store.commit(itemOf(row, attempt))
    }),
  )
  written.abort()
  await following
  seen.push(...(await reader.refresh()))
  await store.close()
  expect(seen).toHaveLength(800)
  expect(new Set(seen.map(itemKey)).size).toBe(800)
  expect(reader.events).toEqual(store.events)
  const order = reader.sortedEvents.map(
    ({ row_index: row, run_index: attempt }) => 8 * row + attempt,
  )
  expect(order).toEqual(Array.from({ length: 800 }, (_, index) => index))
})

it('reads a line once for two concurrent refreshes', async () => {
  const store = await newRun()
  const reader = await openRun(store.location)
  const event = await store.commit(itemOf(0, 0))
  await store.close()
  const both = await Promise.all([reader.refresh(), reader.refresh()])
  expect(both).toEqual([[event], []])
})

it('waits for the rest of a line that is being written', async () => {
  const store = await newRun()
  const first = await store.commit(itemOf(0, 0, 'é'))
  await store.close()
  const journal = path.join(store.location, 'events.jsonl')
  const line = await readFile(journal)
  const reader = await openRun(store.location)
  await appendFile(journal, line.subarray(0, 300))
  expect(await reader.refresh()).toEqual([])
  await appendFile(journal, line.subarray(300))
  expect(await reader.refresh()).toEqual([first])
})

it('starts again when a new run has replaced the one it read', async () => {
  const store = await newRun()
  const reader = await openRun(store.location)
  await store.commit(itemOf(0, 0))
  await store.close()
  await reader.refresh()
  await archiveRun(store.location)
  const { code } = await osmosisErrorOf(() => reader.refresh())
  expect(code).toBe('damaged_run')
  const outputRoot = path.dirname(store.location)
  const fresh = await createRun({ outputRoot, manifest: madeManifest({ n: 3 }) })
  const event = await fresh.commit(itemOf(1, 0))
  expect(await reader.refresh()).toEqual([event])
  expect([...reader.events.values()]).toEqual([event])
  expect(reader.manifest.n).toBe(3)
  await fresh.close()
})

/** A run that was read with two events, and has lost the second one since. */
async function shortenedRun(): Promise<{ reader: RunReader; first: ItemEvent }> {
  const store = await newRun()
  const first = await store.commit(itemOf(0, 0))
  const journal = path.join(store.location, 'events.jsonl')
  const { size } = await stat(journal)
  await store.commit(itemOf(0, 1))
  await store.close()
  const reader = await openRun(store.location)
  await truncate(journal, size)
  return { reader, first }
}

it('starts again when a writer has removed lines', async () => {
  const { reader, first } = await shortenedRun()
  expect(await reader.refresh()).toEqual([first])
  expect(reader.sortedEvents).toEqual([first])
})

it('starts again when a writer has replaced lines that it removed', async () => {
  const { reader, first } = await shortenedRun()
  const resumed = await resumeRun({ location: reader.location })
  const [second, third] = [
    await resumed.commit(itemOf(1, 0, 'x'.repeat(9))),
    await resumed.commit(itemOf(1, 1)),
  ]
  await resumed.close()
  expect(await reader.refresh()).toEqual([first, second, third])
})

it('finds text of conversations, but not field names', async () => {
  const store = await newRun()
  const ask = itemOf(1, 0, 'I look it up.')
  const withTool: EndedItem = {
    ...ask,
    trajectories: Object.fromEntries(
      Object.entries(ask.trajectories ?? {}).map(([id, trajectory]) => [
        id,
        {
          ...trajectory,
          steps: [
            {
              step_id: 1,
              source: 'agent' as const,
              message: '',
              tool_calls: [
                {
                  tool_call_id: 'call_77',
                  function_name: 'find_flight',
                  arguments: { departure_city: 'Zürich', seats: [{ number: 4711 }] },
                },
              ],
              observation: { results: [{ source_call_id: 'call_77', content: 'No such flight' }] },
            },
          ],
        },
      ]),
    ),
  }
  await store.commit(itemOf(0, 0, 'Superseded words.'))
  await store.commit(itemOf(0, 0, 'He said "No",\nthen paid 12 € \\"'))
  await store.commit(withTool)
  await store.commit({ event: itemOf(2, 0).event, trajectories: null, graded: null })
  await store.close()
  const reader = await openRun(store.location)
  const cases = [
    ['he SAID "no",\nthen', '0.0'],
    ['12 € \\"', '0.0'],
    ['find_FLIGHT', '1.0'],
    ['departure_city', '1.0'],
    ['ZÜRICH', '1.0'],
    ['4711', '1.0'],
    ['such flight', '1.0'],
  ] as const
  for (const [text, item] of cases)
    expect([text, await found(reader, text)]).toEqual([text, [item]])
  const unsaid = [
    'superseded',
    'source',
    'agent',
    'ATIF',
    'call_77',
    'rollout-0-0',
    'nthen',
    'label',
  ]
  for (const text of unsaid) expect([text, await found(reader, text)]).toEqual([text, []])
  await expect(found(reader, 'no', AbortSignal.abort(new Error('enough')))).rejects.toThrow(
    'enough',
  )
})

it('stores notes, also after a truncated one', async () => {
  const store = await newRun()
  await store.close()
  const reader = await openRun(store.location)
  expect(await reader.notes()).toEqual([])
  const item = { source_row_index: 3, run_index: 1 }
  const first = await reader.addNote({ ...item, tag: 'gave up', text: 'Too early.' })
  expect(first).toEqual({
    ...item,
    tag: 'gave up',
    text: 'Too early.',
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
  })
  const file = path.join(store.location, 'notes.jsonl')
  await appendFile(file, '{"source_row_index":')
  const second = await reader.addNote({ ...item, tag: null, text: 'Fine.' })
  expect(await reader.notes()).toEqual([first, second])
  expect((await stat(file)).mode & 0o777).toBe(0o600)
})

it('stores re-gradings by name, with the last grade of each item', async () => {
  const store = await newRun()
  await store.close()
  const reader = await openRun(store.location)
  const grade = (row: number, reward: number | null): Grade => ({
    source_row_index: row,
    run_index: 0,
    rollout_id: `rollout-${row}-0`,
    reward,
    error: reward === null ? 'no number in the answer' : null,
  })
  expect(await reader.gradings()).toEqual([])
  await reader.addGrades('strict', [grade(0, 1), grade(1, null)])
  await reader.addGrades('strict', [grade(1, 0)])
  await reader.addGrades('lenient', [grade(0, 1)])
  expect(await reader.gradings()).toEqual(['lenient', 'strict'])
  expect(await reader.grades('strict')).toEqual(
    new Map([
      ['0.0', grade(0, 1)],
      ['1.0', grade(1, 0)],
    ]),
  )
  expect(await reader.grades('unknown')).toEqual(new Map())
  await reader.replaceGrades('strict', [grade(1, 1)])
  expect(await reader.grades('strict')).toEqual(new Map([['1.0', grade(1, 1)]]))
  await reader.addGrades('x'.repeat(96), [])
  for (const name of ['../escape', 'x'.repeat(97)]) {
    expect(await osmosisErrorOf(() => reader.addGrades(name, []))).toEqual({
      code: 'invalid_config',
      message: `The name of a grading has up to 96 letters, digits, '.', '_' and '-' and starts with a letter or digit, got '${name}'.`,
    })
  }
})

it('says which file of a re-grading cannot be written', async () => {
  const store = await newRun()
  await store.close()
  const reader = await openRun(store.location)
  await writeFile(path.join(store.location, 'grades'), '')
  const { code, message } = await osmosisErrorOf(() => reader.addGrades('strict', []))
  expect(code).toBe('storage_error')
  expect(message).toContain(
    `Cannot write to ${path.join(store.location, 'grades', 'strict.jsonl')}: `,
  )
})

it('lists the runs of a folder, the newest first, and the problems of others', async () => {
  const outputRoot = await temporaryFolder({
    'older-format/metrics.json': '{}',
    'newer-format/manifest.json': '{"schema_version":2}',
    'no-run/manifest.json': '{"schema_version":1}',
    'a-file': '',
  })
  const old = madeManifest({ run_name: 'old', created_at: '2026-01-01T00:00:00.000Z' })
  const recent = madeManifest({ run_name: 'recent', created_at: '2026-02-01T00:00:00.000Z' })
  for (const manifest of [old, recent]) await (await createRun({ outputRoot, manifest })).close()
  const at = (name: string): { name: string; location: string } => ({
    name,
    location: path.join(outputRoot, name),
  })
  const problem = (name: string, text: string): object => ({
    ...at(name),
    manifest: null,
    problem: expect.stringContaining(text) as string,
  })
  expect(await listRuns(outputRoot)).toEqual([
    { ...at('recent'), manifest: recent, problem: null },
    { ...at('old'), manifest: old, problem: null },
    problem('newer-format', 'is a manifest of schema version 2, expected 1'),
    problem('no-run', 'is not the manifest of a run'),
    problem('older-format', 'ENOENT'),
  ])
  expect(await listRuns(path.join(outputRoot, 'none'))).toEqual([])
})

it('names the file that a run lacks', async () => {
  const root = await temporaryFolder({ 'run/manifest.json': JSON.stringify(madeManifest()) })
  const location = path.join(root, 'run')
  expect(await osmosisErrorOf(() => openRun(location))).toEqual({
    code: 'damaged_run',
    message: `The run ${location} has no events.jsonl.`,
  })
  expect((await osmosisErrorOf(() => resumeRun({ location }))).message).toContain(
    `Cannot read the journal ${path.join(location, 'events.jsonl')}: ENOENT`,
  )
  await writeFile(path.join(location, 'manifest.json'), 'no JSON')
  expect((await osmosisErrorOf(() => openRun(location))).message).toContain(
    `Cannot read the manifest ${path.join(location, 'manifest.json')}: `,
  )
  expect(await readdir(root)).toEqual(['.locks', 'run'])

  const none = await temporaryFolder()
  const { code } = await osmosisErrorOf(() => resumeRun({ location: path.join(none, 'run') }))
  expect([code, await readdir(none)]).toEqual(['damaged_run', []])
})

it.each([
  ['in one read', false],
  ['over two reads', true],
])('takes the end of a line that is too long, %s, for no line of the log', async (_how, isRead) => {
  const store = await newRun()
  await store.close()
  const reader = await openRun(store.location)
  const log = path.join(store.location, 'logs.txt')
  const loggedOf = async (id: string) => reader.loggedError({ rollout_id: id })
  const lineOf = (id: string) =>
    `${JSON.stringify({ level: 40, rollout_id: id, error: { stack: 'Error' }, msg: `of ${id}` })}\n`
  // The log is read in pieces of 1 MiB.
  await appendFile(log, 'x'.repeat(1024 * 1024))
  if (isRead) await loggedOf('printed')
  await appendFile(log, lineOf('printed') + lineOf('logged'))
  expect(await loggedOf('printed')).toBeUndefined()
  expect(await loggedOf('logged')).toBe('of logged')
})
