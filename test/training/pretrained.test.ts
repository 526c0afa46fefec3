// @module-tag nightly
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'

const prove = path.resolve(import.meta.dirname, '../../scripts/real-models/prove.ts')

interface TrainingLine {
  readonly kind: string
  readonly rollouts: { readonly reward: number }
  readonly update: { readonly driftMax: number } | null
}

it(
  'a pretrained model begins to get better, and what it sampled is what is trained',
  { timeout: 3_600_000 },
  async () => {
    const folder = await temporaryFolder()
    const args = [prove, folder, '--seeds', '1', '--steps', '4']
    // It ends with code 1 when four steps have not gained thirty points.
    await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 }).catch(() => {})
    const journal = readFileSync(path.join(folder, 'orders-1/training.jsonl'), 'utf8').trim()
    const lines = journal.split('\n').map((line) => JSON.parse(line) as TrainingLine)
    const ofKind = (wanted: string): TrainingLine[] => lines.filter(({ kind }) => kind === wanted)
    const [before = 1, after = 0] = ofKind('evaluation').map(({ rollouts }) => rollouts.reward)
    const drifts = ofKind('step').map(({ update }) => update?.driftMax ?? Infinity)
    expect(drifts.map((drift) => drift < 1e-3)).toEqual([true, true, true, true])
    expect(after).toBeGreaterThan(before + 0.1)
  },
)
