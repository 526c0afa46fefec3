// @module-tag nightly
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { pythonWithTorch, withTorch } from '../kit/index.ts'
import { root, run } from './command.ts'

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: { 'demo:train': string }
}

withTorch().it(
  '--torch trains a transformer',
  async () => {
    const output = mkdtempSync(path.join(tmpdir(), 'osmosis-train-'))
    onTestFinished(() => rmSync(output, { recursive: true }))
    const [command = '', ...args] = scripts['demo:train'].split(' ')
    args.push('--torch', '--python', pythonWithTorch() ?? '', '--output', output)
    const { code, stdout, stderr } = await run(command, args)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const rewards = [...stdout.matchAll(/^ +(\d+) +([01]\.\d\d)  [█▏▎▍▌▋▊▉]/gm)].map(toFigures)
    expect(rewards[0]?.[1]).toBeLessThan(0.5)
    expect(rewards.at(-1)?.[1]).toBeGreaterThanOrEqual(0.9)
    expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)
  },
  600_000,
)

function toFigures([, iteration, reward]: RegExpMatchArray): [number, number] {
  return [Number(iteration), Number(reward)]
}
