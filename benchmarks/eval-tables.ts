// What the analysis of a run of 100,000 rollouts costs: 25,000 rows, four attempts at each. Milliseconds
// of CPU, collecting garbage included, because the machine may do other work as well.
import {
  findings,
  type ItemEvent,
  parseQuery,
  RunTable,
  runStatistics,
  selectItems,
  toRunDocument,
} from '@osmosis/eval/analysis'

import { manifestOf } from '../packages/eval/test/analysis/runs.ts'
import { madeEvent } from '../test/kit/made-runs.ts'
import { median } from './figures.ts'

const rounds = 5
const rows = 25_000
const tools = ['find', 'update', 'cancel', 'calculate']
const manifest = manifestOf(
  Array.from({ length: rows }, (_, row) => ({
    key: `key-${row}`,
    source_row: row,
    facets: { task: ['refund', 'cancel', 'baggage'][row % 3] ?? '' },
  })),
)
const events = Array.from({ length: rows * 4 }, (_, item) => simulated(item >> 2, item % 4))

const figures = new Map<string, number[]>()
for (let round = 0; round < rounds; round++) {
  const document = measured('document', () => toRunDocument(manifest, events))
  const text = measured('to JSON', () => JSON.stringify(document))
  const received = measured('from JSON', () => JSON.parse(text) as typeof document)
  const table = measured('table', () => new RunTable(received))
  for (const line of [
    '',
    'is:stuck tool:upd sort:-tokens',
    'visa -"9 is"',
    'reward<1 task:refund',
  ]) {
    measured(`filter ${line}`, () => selectItems(table, parseQuery(line, table)))
  }
  measured('findings', () => findings(table))
  measured('statistics', () => runStatistics(table))
  measured('append one', () => table.append(events.slice(0, 1)))
}

const goals: Readonly<Record<string, number>> = { table: 300 }
for (const [name, times] of figures) {
  const goal = name.startsWith('filter') ? 60 : goals[name]
  const beside = goal === undefined ? '' : `goal ${goal}`
  console.log(`${name.padEnd(40)} ${median(times).toFixed(1).padStart(7)} ms  ${beside}`)
}
console.log(
  JSON.stringify(Object.fromEntries([...figures].map(([name, times]) => [name, median(times)]))),
)

function measured<T>(name: string, run: () => T): T {
  const start = process.cpuUsage()
  const result = run()
  const { user, system } = process.cpuUsage(start)
  const times = figures.get(name) ?? []
  figures.set(name, [...times, (user + system) / 1000])
  return result
}

/** Different from its neighbours in every counted figure, and the same in every process. */
function simulated(row: number, attempt: number): ItemEvent {
  const mixed = Math.imul(row * 4 + attempt + 1, 0x9e3779b1) >>> 0
  const use = tools
    .filter((_, at) => (mixed >> at) % 2 === 1)
    .map((name, at) => ({
      name,
      calls: 4 + ((mixed >> (at + 8)) % 3),
      errors: mixed % 17 === at ? 3 : 0,
    }))
  return madeEvent(row, attempt, {
    reward: (mixed >>> 16) % 100 < (row % 3) * 50 ? 1 : 0,
    completion_tokens: mixed % 1000,
    tools: use,
    tool_calls: use.reduce((sum, { calls }) => sum + calls, 0),
    tool_errors: use.reduce((sum, { errors }) => sum + errors, 0),
    metrics: { stored: mixed % 2 },
    summary: `Done! Request ${row}.${attempt} is complete, and $${mixed % 900} was charged to your Visa ending in ${mixed % 10_000}.`,
  })
}
