// What `kill -9` does to an evaluation: 1,000 cheap rollouts, and 30 kills at random moments. Prints each
// figure beside its goal, and a line of JSON.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { runThroughCrashes } from '../packages/cli/test/crashing-run.ts'

const items = Number(process.argv[2] ?? 1000)
const inFlight = 4
const kills = Array.from({ length: Number(process.argv[3] ?? 30) }, () =>
  Math.floor((Math.random() * 1.6 * items) / 40),
)
const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-crashes-'))
try {
  const startedAt = performance.now()
  const figures = await runThroughCrashes(folder, { items, inFlight, kills })
  const { ended, started, lost, twice } = figures
  const seconds = (performance.now() - startedAt) / 1000
  console.table({
    results: { measured: ended, goal: items },
    'acknowledged and lost': { measured: lost, goal: 0 },
    'results twice': { measured: twice, goal: 0 },
    'rollouts started': { measured: started, goal: `at most ${items + kills.length * inFlight}` },
  })
  console.log(JSON.stringify({ ...figures, seconds: Math.round(seconds) }))
} finally {
  rmSync(folder, { recursive: true })
}
