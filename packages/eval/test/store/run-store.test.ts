import { readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { archiveRun, changedInputs, createRun, itemKey, openRun, resumeRun } from '@osmosis/eval'
import type { ItemEvent, RunInputs } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import {
  journalLine,
  madeEvent,
  madeManifest,
  temporaryFolder,
} from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'
import { itemOf } from './runs.ts'

it('provides committed items to readers and to the next writer', async () => {
  const outputRoot = await temporaryFolder()
  const store = await createRun({ outputRoot, manifest: madeManifest() })
  expect(store.location).toBe(join(outputRoot, 'airline-1'))
  const [first, second] = await Promise.all([
    store.commit(itemOf(0, 0, 'First.')),
    store.commit({ event: madeEvent(0, 1), trajectories: null, graded: null }),
  ])
  expect(second).toEqual({ ...madeEvent(0, 1), trajectory_place: null, sample_place: null })
  expect(first).toEqual({
    ...madeEvent(0, 0),
    trajectory_place: first.trajectory_place,
    sample_place: first.sample_place,
  })
  await store.close()

  const reader = await openRun(store.location)
  expect(reader.manifest).toEqual(madeManifest())
  expect(reader.sortedEvents).toEqual([first, second])
  expect(await reader.trajectories(first)).toEqual({
    state: 'found',
    value: itemOf(0, 0, 'First.').trajectories,
  })
  expect(await reader.graded(first)).toEqual({
    state: 'found',
    value: itemOf(0, 0, 'First.').graded,
  })
  expect(await reader.trajectories(second)).toEqual({ state: 'missing' })

  const resumed = await resumeRun({ location: store.location })
  expect(resumed.events).toEqual(
    new Map([
      ['0.0', first],
      ['0.1', second],
    ]),
  )
  const third = await resumed.commit(itemOf(1, 0))
  expect(await reader.refresh()).toEqual([third])
  expect(await reader.refresh()).toEqual([])
  await resumed.close()
})

it('makes files readable only for their owner', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  await store.commit(itemOf(0, 0))
  await store.writeSnapshots(() => ({ index: 'i', metrics: 'm', progress: 'p' }))
  await store.close()
  const entries = await readdir(store.location, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  expect(files.map(({ name }) => name).toSorted()).toEqual([
    '0000.jsonl',
    '0000.jsonl',
    'events.jsonl',
    'index.jsonl',
    'manifest.json',
    'metrics.json',
    'progress.json',
  ])
  for (const { parentPath, name } of files) {
    expect((await stat(join(parentPath, name))).mode & 0o777).toBe(0o600)
  }
})

it('waits for pending commits when it is closed', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const committed = Promise.all([0, 1].map((row) => store.commit(itemOf(row, 0))))
  await store.close()
  expect((await openRun(store.location)).sortedEvents).toEqual(await committed)
})

it('writes lines that are slightly longer than the initial buffer', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const lengthOf = (event: ItemEvent): number => `${JSON.stringify(event)}\n`.length
  const short = await store.commit({ event: madeEvent(0, 0), trajectories: null, graded: null })
  const summary = short.summary + 'x'.repeat(64 * 1024 + 1 - lengthOf(short))
  const long = { event: madeEvent(0, 0, { summary }), trajectories: null, graded: null }
  expect(lengthOf(await store.commit(long))).toBe(64 * 1024 + 1)
  const next = await store.commit(itemOf(1, 0))
  await store.close()
  expect((await openRun(store.location)).sortedEvents).toEqual([{ ...short, summary }, next])
})

it('uses the last event of an item', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  await store.commit(itemOf(0, 0, 'Lost.', { status: 'failed', reward: null }))
  const again = await store.commit(itemOf(0, 0, 'Found.'))
  await store.close()
  const { events } = await openRun(store.location)
  expect([...events]).toEqual([[itemKey(again), again]])
})

it('removes a truncated last line and unreferenced data, and continues after it', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const first = await store.commit(itemOf(0, 0))
  await store.commit(itemOf(0, 1))
  await store.close()
  const journal = join(store.location, 'events.jsonl')
  const { size } = await stat(journal)
  await truncate(journal, size - 1)
  await writeFile(join(store.location, 'trajectories', '0001.jsonl'), 'never referred to\n')
  const unfinished = 'index.jsonl.01234567-89ab-cdef-0123-456789abcdef.tmp'
  await writeFile(join(store.location, unfinished), 'half a snap')

  const reader = await openRun(store.location)
  expect(reader.sortedEvents).toEqual([first])
  const resumed = await resumeRun({ location: store.location })
  expect([...resumed.events.values()]).toEqual([first])
  expect((await readFile(journal, 'utf8')).split('\n')).toHaveLength(2)
  expect(await readdir(join(store.location, 'trajectories'))).toEqual(['0000.jsonl'])
  expect(await readdir(store.location)).not.toContain(unfinished)
  const second = await resumed.commit(itemOf(0, 1, 'Again.'))
  expect(second.trajectory_place?.[1]).toBe(first.trajectory_place?.[2])
  await resumed.close()
  expect(await reader.refresh()).toEqual([second])
  expect(await reader.trajectories(second)).toEqual({
    state: 'found',
    value: itemOf(0, 1, 'Again.').trajectories,
  })
})

it('removes no referenced data, in any order of lines', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  for (const row of [0, 1]) await store.commit(itemOf(row, 0))
  await store.close()
  const journal = join(store.location, 'events.jsonl')
  const [first, second] = (await readFile(journal, 'utf8')).split('\n')
  await writeFile(journal, `${second}\n${first}\n`)
  await (await resumeRun({ location: store.location })).close()
  const reader = await openRun(store.location)
  for (const event of reader.sortedEvents) {
    expect((await reader.trajectories(event)).state).toBe('found')
  }
})

it.each(['{"row_index":0', '{"reward":1}', '', 'null'])(
  'rejects a line in the middle that is not an event: %s',
  async (line) => {
    const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
    await store.commit(itemOf(0, 0))
    await store.close()
    const journal = join(store.location, 'events.jsonl')
    const whole = await readFile(journal, 'utf8')
    await writeFile(journal, `${whole}${line}\n${whole}`)
    const expected = {
      code: 'damaged_run',
      message: `${journal}:2 is not a valid event of a run. The file was changed or is damaged: remove the line, and its item runs again.`,
    }
    expect(await osmosisErrorOf(() => resumeRun({ location: store.location }))).toEqual(expected)
    expect(await osmosisErrorOf(() => openRun(store.location))).toEqual(expected)
    await writeFile(journal, whole)
    await (await resumeRun({ location: store.location })).close()
  },
)

it('detects a damaged bit of a journal, wherever it is, and reports its line', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  await store.commit(itemOf(0, 0))
  await store.commit(itemOf(0, 1))
  await store.close()
  const journal = join(store.location, 'events.jsonl')
  const whole = await readFile(journal)
  const first = whole.indexOf('\n')
  // Every thirteenth bit: these are in most bytes, and at each place within a byte.
  for (let bit = 0; bit < first * 8; bit += 13) {
    const damaged = Buffer.from(whole)
    damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    // A line break in the middle makes two lines of one, of which the first is named all the same.
    await writeFile(journal, damaged)
    const { code, message } = await osmosisErrorOf(() => openRun(store.location))
    expect([bit, code, message.slice(0, journal.length + 2)]).toEqual([
      bit,
      'damaged_run',
      `${journal}:1`,
    ])
  }
})

it('rejects a line with a valid checksum but invalid fields', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const event = await store.commit(itemOf(0, 0))
  await store.close()
  const journal = join(store.location, 'events.jsonl')
  await writeFile(journal, journalLine({ ...event, reward: 'high' }))
  expect((await osmosisErrorOf(() => openRun(store.location))).code).toBe('damaged_run')
})

it('reports whether a trajectory is missing or damaged', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const event = await store.commit(itemOf(0, 0, 'Paid 100 euros.'))
  await store.close()
  const reader = await openRun(store.location)
  const segment = join(store.location, 'trajectories', '0000.jsonl')
  const text = await readFile(segment, 'utf8')
  await writeFile(segment, text.replace('100', '900'))
  expect(await reader.trajectories(event)).toEqual({ state: 'damaged' })
  await truncate(segment, text.length - 3)
  expect(await reader.trajectories(event)).toEqual({ state: 'damaged' })
  const elsewhere: ItemEvent = { ...event, trajectory_place: [7, 0, 10, 0] }
  expect(await reader.trajectories(elsewhere)).toEqual({ state: 'missing' })

  // What is written next must not lie where the lost end was.
  const resumed = await resumeRun({ location: store.location })
  const next = await resumed.commit(itemOf(0, 1))
  expect(next.trajectory_place?.[0]).toBe(1)
  await resumed.close()
})

it('is never overwritten, and is archived under the next number', async () => {
  const outputRoot = await temporaryFolder()
  const store = await createRun({ outputRoot, manifest: madeManifest() })
  await store.close()
  const { location } = store
  expect(await osmosisErrorOf(() => createRun({ outputRoot, manifest: madeManifest() }))).toEqual({
    code: 'invalid_config',
    message: `The run folder ${location} already exists, and results are not overwritten. Resume the run, or pass another --name or --output.`,
  })
  expect(await archiveRun(location)).toBe(`${location}.1`)
  await (await createRun({ outputRoot, manifest: madeManifest() })).close()
  expect(await archiveRun(location)).toBe(`${location}.2`)
  expect((await openRun(`${location}.2`)).name).toBe('airline-1.2')
  const { code, message } = await osmosisErrorOf(() => archiveRun(location))
  expect([code, message]).toEqual([
    'invalid_config',
    expect.stringContaining(`Cannot rename the run folder ${location}: ENOENT`),
  ])
})

it('replaces a run whose creation was interrupted', async () => {
  const outputRoot = await temporaryFolder({ '.airline-1.tmp/events.jsonl': 'left behind' })
  await (await createRun({ outputRoot, manifest: madeManifest() })).close()
  expect((await readdir(outputRoot)).toSorted()).toEqual(['.locks', 'airline-1'])
})

it('cannot be created under a file, nor with the name of a path', async () => {
  const outputRoot = join(await temporaryFolder({ file: '' }), 'file', 'evals')
  const { code, message } = await osmosisErrorOf(() =>
    createRun({ outputRoot, manifest: madeManifest() }),
  )
  expect([code, message]).toEqual([
    'invalid_config',
    expect.stringContaining(
      `Cannot create the run folder ${join(outputRoot, 'airline-1')}: ENOTDIR`,
    ),
  ])
  const manifest = madeManifest({ run_name: '../airline' })
  expect((await osmosisErrorOf(() => createRun({ outputRoot, manifest }))).code).toBe(
    'invalid_config',
  )
})

it('can get more rows and attempts, and existing rows keep their places', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  const reader = await openRun(store.location)
  const rows = [7, 1, 0].map((row) => ({ key: `row-${row}`, source_row: row }))
  const grown = await store.grow({ rows, n: 4 })
  expect(grown.rows.map(({ source_row: row }) => row)).toEqual([0, 1, 7])
  expect(grown.n).toBe(4)
  expect(await store.grow({ rows: [], n: 1 })).toBe(grown)
  await store.grow({ pass_threshold: 0.5 })
  await store.close()
  await reader.refresh()
  expect(reader.manifest).toEqual({ ...grown, pass_threshold: 0.5 })
  const resumed = await resumeRun({ location: store.location })
  expect(resumed.manifest).toEqual(reader.manifest)
  await resumed.close()
})

const { inputs } = madeManifest({ inputs: { env: { LOCALE: 'en' }, secrets: ['OPENAI_API_KEY'] } })

it.each<[keyof RunInputs, RunInputs]>([
  ['model', { ...inputs, model: { ...inputs.model, params: { temperature: 0.5 } } }],
  ['dataset', { ...inputs, dataset: { ...inputs.dataset, sha256: 'e'.repeat(64) } }],
  ['code', { ...inputs, code: { ...inputs.code, scorers: ['polite'] } }],
  ['env', { ...inputs, env: {} }],
  ['secrets', { ...inputs, secrets: [] }],
  ['timeouts', { ...inputs, timeouts: { ...inputs.timeouts, agent_seconds: 1 } }],
])('names the group of inputs that changed: %s', (group, changed) => {
  const manifest = madeManifest({ inputs })
  expect(changedInputs(manifest, changed)).toEqual([group])
  const sameInJson = { ...inputs, model: { ...inputs.model, params: { top_p: undefined } } }
  expect(changedInputs(manifest, sameInJson)).toEqual([])
})

it('keeps the lines of several processes apart that add many verdicts at once', async () => {
  const outputRoot = await temporaryFolder()
  const store = await createRun({ outputRoot, manifest: madeManifest() })
  await store.close()
  const because = 'it guesses '.repeat(1000)
  const verdicts = Array.from({ length: 200 }, (_, run_index) => ({
    source_row_index: 0,
    run_index,
    rollout_id: `r${run_index}`,
    check: 'no-tools' as const,
    value: 1,
    verdict: 'hacked' as const,
    because,
    by: 'Ann',
  }))
  const writers = await Promise.all(Array.from({ length: 4 }, () => openRun(store.location)))
  await Promise.all(writers.map((writer) => writer.addVerdicts(verdicts)))
  expect(await (await openRun(store.location)).verdicts()).toHaveLength(800)
})

it('refuses commits when it is closed', async () => {
  const store = await createRun({ outputRoot: await temporaryFolder(), manifest: madeManifest() })
  await store.close()
  await store.close()
  await expect(store.commit(itemOf(0, 0))).rejects.toThrow(TypeError)
})

it('refreshes snapshots periodically, and writes them at the end', async () => {
  const outputRoot = await temporaryFolder()
  const store = await createRun({
    outputRoot,
    manifest: madeManifest(),
    snapshotIntervalMs: 3_600_000,
  })
  const made: number[] = []
  const refresh = (number: number): Promise<void> =>
    store.refreshSnapshots(() => {
      made.push(number)
      return { index: `index ${number}`, metrics: '', progress: '' }
    })
  await Promise.all([refresh(1), refresh(2)])
  await refresh(3)
  const index = join(store.location, 'index.jsonl')
  expect(await readFile(index, 'utf8')).toBe('index 1')
  expect(made).toEqual([1])
  await store.writeSnapshots(() => ({
    index: ['in', 'dex'],
    metrics: 'metrics',
    progress: 'progress',
  }))
  expect(await readFile(index, 'utf8')).toBe('index')
  expect(await readFile(join(store.location, 'metrics.json'), 'utf8')).toBe('metrics')
  expect(await readFile(join(store.location, 'progress.json'), 'utf8')).toBe('progress')
  await store.close()
})

it('makes no second snapshot when the first one took long, whatever the interval', async () => {
  const outputRoot = await temporaryFolder()
  const store = await createRun({ outputRoot, manifest: madeManifest(), snapshotIntervalMs: 0 })
  let made = 0
  const refresh = (): Promise<void> =>
    store.refreshSnapshots(() => {
      made += 1
      // A twentieth of the time at most: this one and the next pay for 12 s.
      const end = performance.now() + 200
      while (performance.now() < end);
      return { index: '', metrics: '', progress: '' }
    })
  await refresh()
  await refresh()
  await store.close()
  expect(made).toBe(1)
})
