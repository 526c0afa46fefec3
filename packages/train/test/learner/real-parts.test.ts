// @module-tag nightly
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

import { expect } from 'vitest'

import { pythonWithModels, withModels } from '../../../../test/kit/index.ts'

const { it } = withModels()

it(
  'a tiny Qwen3 is rendered, trained, saved and continued by a learner, and learns the door task with LoRA and with all weights',
  { timeout: 1_800_000 },
  async () => {
    const file = path.join(import.meta.dirname, 'real_parts.py')
    const env = { ...process.env, OMP_NUM_THREADS: '1' }
    const args = [file, '--seeds', '1']
    const { stdout } = await promisify(execFile)(pythonWithModels() ?? '', args, { env })
    expect(stdout).toMatch(/^learning, rank 8, seed 0/m)
    expect(stdout).toMatch(/^learning, rank 0, seed 0/m)
    expect(stdout).toMatch(/^targets: /m)
    expect(stdout.match(/^templates: /gm)).toHaveLength(3)
    expect(stdout.match(/^rank \d: continues exactly/gm)).toHaveLength(2)
    expect(stdout.match(/^rank \d: kept or computed again/gm)).toHaveLength(2)
  },
)

it(
  'all figures of a GPU are measured with a tiny model, which a saved folder restores exactly',
  { timeout: 600_000 },
  async () => {
    const file = path.join(import.meta.dirname, '../../../../scripts/real-models/gpu.py')
    const env = { ...process.env, OMP_NUM_THREADS: '1' }
    const { stdout } = await promisify(execFile)(pythonWithModels() ?? '', [file, '--tiny'], {
      env,
    })
    const lines = stdout.split('\n').filter((line) => line.startsWith('{'))
    const figures = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(figures.filter((each) => !('figure' in each))).toEqual([])
    const value = (what: string): unknown =>
      figures.find((each) => each['what'] === what)?.['value']
    for (const name of ['LoRA, bf16', 'all weights, bf16', 'all weights, fp32']) {
      expect(value(`learner, ${name}, 8 at once`)).toBeGreaterThan(0)
      expect(value(`${name}, largest difference of logprobs before loading`)).toBeGreaterThan(1e-4)
      expect(value(`${name}, largest difference of logprobs after loading`)).toBe(0)
    }
    expect(value('all weights, fp32, drift_max')).toBeLessThan(1e-4)
    expect(value('LoRA, bf16, drift_mean')).toBeLessThan(0.05)
  },
)
