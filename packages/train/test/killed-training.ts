// Trains in a process of its own, which a test kills: <folder> <steps>. Prints a line for each rollout that ends.
import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { train } from '@osmosis/train'

import { doorRollouts, doors } from './doors.ts'
import { TinyLearner } from './tiny-learner.ts'

const [folder = '', steps = '1'] = process.argv.slice(2)
const { rollouts, close } = await doorRollouts()
const learner = new TinyLearner(65)
await train({
  folder,
  learner,
  rollouts,
  rows: doors,
  steps: Number(steps),
  rowsPerStep: 8,
  attempts: 4,
  checkpointEvery: 2,
  curriculum: true,
  maxStaleness: 1,
  // It learns the doors before its last step, and goes on.
  stopWhen: { withoutSignal: 0 },
  onProgress: (run, { done }) => void process.stdout.write(`${run} ${done}\n`),
})
writeFileSync(path.join(folder, 'weights.json'), JSON.stringify(learner.weights))
await close()
process.exit()
