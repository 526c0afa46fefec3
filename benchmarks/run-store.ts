// What keeping the results of an evaluation costs: 100,000 rollouts, 64 at a time, each on the disk
// before it is acknowledged; then resuming, reading and searching, writers that are killed, and a disk
// that is full.
//
//   npx -y pnpm@12 run bench store [rollouts] [folder on the disk to measure]
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { createRun, openRun, type EndedItem, type RunReader, type RunStore } from '@osmosis/eval'

import { complete, crash, inFlight, outputOf, writer } from '../packages/eval/test/store/crashes.ts'
import { itemOf } from '../packages/eval/test/store/runs.ts'
import { madeManifest } from '../test/kit/made-runs.ts'
import { median, quantile, rounded } from './figures.ts'

const rollouts = Number(process.argv[2] ?? 100_000)
const concurrency = 64
const folder = await mkdtemp(path.join(process.argv[3] ?? tmpdir(), 'osmosis-store-'))
const rows: object[] = []

try {
  await bareWriting()
  const location = await writing('said', false)
  const reader = await resuming(location)
  await reading(reader)
  await searching(reader)
  await writing('said-and-graded', true)
  await killing()
  await fullDisk()
} finally {
  await rm(folder, { recursive: true, force: true })
}
console.log(JSON.stringify({ node: process.version, rollouts, rows }))

/** A goal is what a prototype reached on two cores. */
function show(name: string, value: number | string, unit: string, goal?: string): void {
  rows.push({ name, value, unit, ...(goal === undefined ? {} : { goal }) })
  const figure = `${name.padEnd(46)} ${String(value).padStart(9)} ${unit.padEnd(6)}`
  console.log(goal === undefined ? figure : `${figure} (goal: ${goal})`)
}

async function writing(name: string, withGraded: boolean): Promise<string> {
  const manifest = madeManifest({ run_name: name })
  const store = await createRun({ outputRoot: folder, manifest })
  const times = new Float64Array(rollouts)
  let next = 0
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (next < rollouts) {
        const index = next
        next += 1
        const item = benchmarkItem(index, withGraded)
        const before = performance.now()
        await store.commit(item)
        times[index] = performance.now() - before
      }
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  await store.close()
  const label = withGraded ? 'with what graders saw: ' : ''
  const goal = (text: string): string | undefined => (withGraded ? undefined : text)
  show(`${label}writing`, rounded(seconds), 's', goal('at most 5.4'))
  show(`${label}writes`, Math.round(rollouts / seconds), 'per s', goal('at least 18400'))
  show(`${label}CPU`, rounded((user + system) / 1e6), 's')
  show(`${label}ack p50`, rounded(median(times)), 'ms', goal('at most 2.7'))
  show(`${label}ack p99`, rounded(quantile(times, 0.99)), 'ms', goal('at most 12'))
  show(`${label}size`, Math.round((await sizeOf(store)) / 2 ** 20), 'MiB', goal('840'))
  return store.location
}

/** The same bytes, 64 lines at once, by nothing but the file system: what this disk can do just now. */
async function bareWriting(): Promise<void> {
  const line = Buffer.from(`${JSON.stringify(benchmarkItem(0, false))}\n`)
  const group = Buffer.concat(Array.from({ length: concurrency }, () => line))
  const file = path.join(folder, 'bare.jsonl')
  const handle = await open(file, 'a')
  const startedAt = performance.now()
  for (let written = 0; written < rollouts; written += concurrency) {
    await handle.appendFile(group)
    await handle.datasync()
  }
  const seconds = (performance.now() - startedAt) / 1000
  await handle.close()
  await rm(file)
  show('the same bytes in one file, nothing else', rounded(seconds), 's')
}

async function resuming(location: string): Promise<RunReader> {
  const startedAt = performance.now()
  const reader = await openRun(location)
  show('resume: the journal', rounded((performance.now() - startedAt) / 1000), 's', 'at most 0.7')
  const memory = Math.round(process.memoryUsage().rss / 2 ** 20)
  show('memory of this process, with all events', memory, 'MiB', 'at most 450')
  return reader
}

async function reading(reader: RunReader): Promise<void> {
  const events = reader.sortedEvents
  const times = new Float64Array(2000)
  for (const index of times.keys()) {
    const event = events[(index * 7919) % events.length]
    if (event === undefined) throw new Error('no events')
    const before = performance.now()
    const { state } = await reader.trajectories(event)
    times[index] = performance.now() - before
    if (state !== 'found') throw new Error(`trajectory ${state}`)
  }
  show('read p50', rounded(median(times)), 'ms', 'at most 0.06')
}

async function searching(reader: RunReader): Promise<void> {
  const texts = { 'a text of 1 in 100': 'Technical Problem', 'a text of all': 'flight' }
  for (const [name, text] of Object.entries(texts)) {
    const startedAt = performance.now()
    let hits = 0
    for await (const event of reader.search(text)) hits += event.trajectory_place === null ? 0 : 1
    const seconds = rounded((performance.now() - startedAt) / 1000)
    show(`search, ${name} (${hits} hits)`, seconds, 's', 'at most 1.5')
  }
}

async function killing(): Promise<void> {
  const kills = 30
  const root = path.join(folder, 'kills')
  const report = await crash(root, 1000, kills)
  const { lost, twice, unreadable, events, started, acknowledged } = report
  show(`${kills} kill -9: results of 1000`, events, 'items', '1000')
  show('acknowledged by writers that were killed', acknowledged, 'items')
  show('of these lost', lost, 'items', '0')
  show('twice', twice, 'items', '0')
  show('unreadable', unreadable, 'items', '0')
  show('started', started, 'items', `at most ${1000 + kills * inFlight}`)
}

/** A file system of one mebibyte, which takes root to make; then it grows. */
async function fullDisk(): Promise<void> {
  const root = path.join(folder, 'small')
  await mkdir(root)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', root], { stdio: 'pipe' })
  } catch {
    show('full disk', 'not run', '', 'needs root, and mount')
    return
  }
  try {
    const manifest = madeManifest({
      rows: Array.from({ length: 500 }, (_, row) => ({ key: `${row}`, source_row: row })),
    })
    const store = await createRun({ outputRoot: root, manifest })
    await store.close()
    const output = await outputOf(writer(store.location, Infinity), Infinity)
    const ended = output.flatMap((line) => /^ended (.+)/.exec(line)?.[1] ?? [])
    const { events } = await openRun(store.location)
    console.log(output.findLast((line) => line.startsWith('failed ')))
    show('full disk: acknowledged', ended.length, 'items')
    show('of these lost', ended.filter((item) => !events.has(item)).length, 'items', '0')
    show('more than acknowledged', events.size - ended.length, 'items', '0')
    execFileSync('mount', ['-o', 'remount,size=64m', root])
    await complete(store.location)
    show('completed later', (await openRun(store.location)).events.size, 'items', '1000')
  } finally {
    execFileSync('umount', [root])
  }
}

/** A rollout of eight calls of a tool, whose line has 7.9 KiB. */
function benchmarkItem(index: number, withGraded: boolean): EndedItem {
  const item = itemOf(index >> 2, index & 3)
  const steps = Array.from({ length: 8 }, (_, call) => ({
    step_id: call + 2,
    timestamp: '2026-01-02T03:04:05.678Z',
    source: 'agent' as const,
    model_name: 'osmosis-rollout',
    message: `I look for flight ${index + call} and the next that leaves after it. ${'Then I compare what they cost. '.repeat(10)}`,
    tool_calls: [
      {
        tool_call_id: `call_${index}_${call}`,
        function_name: 'find_flight',
        arguments: { from: 'ZRH', to: 'SFO', passenger: `passenger ${index}`, seats: call },
      },
    ],
    observation: {
      results: [
        {
          source_call_id: `call_${index}_${call}`,
          content: '{"flight":"LX 38","departs":"13:10","price":840,"seats":4}'.repeat(3),
        },
      ],
    },
    metrics: { prompt_tokens: 812 + call, completion_tokens: 64 },
  }))
  const last = index % 100 === 0 ? 'Sorry, there was a technical problem.' : 'It is booked.'
  return {
    event: item.event,
    trajectories: {
      main: {
        schema_version: 'ATIF-v1.7',
        session_id: item.event.rollout_id,
        agent: { name: 'airline', version: '1.0.0' },
        steps: [
          { step_id: 1, source: 'user', message: 'Book me a flight to San Francisco.' },
          ...steps,
          { step_id: 10, source: 'agent', message: last },
        ],
      },
    },
    graded: withGraded ? { ...gradedOf(item), artifacts: null } : null,
  }

  function gradedOf({ graded }: EndedItem): NonNullable<EndedItem['graded']> {
    if (graded === null) throw new Error('an item without a sample')
    const messages = steps.map(({ message }) => ({ role: 'assistant', content: message }))
    return {
      ...graded,
      samples: { main: { messages, label: null, metrics: {}, extra_fields: {} } },
    }
  }
}

async function sizeOf({ location }: RunStore): Promise<number> {
  const entries = await readdir(location, { recursive: true, withFileTypes: true })
  let size = 0
  for (const entry of entries) {
    if (entry.isFile()) size += (await stat(path.join(entry.parentPath, entry.name))).size
  }
  return size
}
