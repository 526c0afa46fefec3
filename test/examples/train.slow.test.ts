import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { expect, it, onTestFinished } from 'vitest'

import { root, run } from './command.ts'

const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  scripts: { 'demo:train': string }
}

it('an agent learns while one watches, and the runs before and after are there to be read', async () => {
  const output = mkdtempSync(path.join(tmpdir(), 'osmosis-train-'))
  onTestFinished(() => rmSync(output, { recursive: true }))
  const [command = '', ...args] = scripts['demo:train'].split(' ')
  args.push('--iterations', '10', '--output', output)
  const { code, stdout, stderr } = await run(command, args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })

  const rewards = [...stdout.matchAll(/^ +(\d+) +([01]\.\d\d)  [█▏▎▍▌▋▊▉]/gm)].map(toFigures)
  expect(rewards.map(([iteration]) => iteration)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  expect(rewards[0]?.[1]).toBeLessThan(0.35)
  expect(rewards.at(-1)?.[1]).toBeGreaterThan(0.7)
  expect(stdout).not.toContain('\u001B')
  expect(stdout).toMatch(/^Better by 0\.\d+, with 95 % confidence/m)

  const conversations = [...stdout.matchAll(/npx osmosis (eval show .*)$/gm)]
  const [before = '', after = ''] = await Promise.all(
    conversations.map(async ([, words = '']) => (await run('osmosis', words.split(' '))).stdout),
  )
  expect(conversations).toHaveLength(2)
  expect(before).toMatch(/^\d+\.\d  reward 0, not passed/m)
  expect(after).toMatch(/^\d+\.\d  reward 1, passed/m)
  expect(after).toContain('→ read_note()')
  expect(stdout).toContain(`npx osmosis eval view --output ${output}\n`)
}, 600_000)

function toFigures([, iteration, reward]: RegExpMatchArray): [number, number] {
  return [Number(iteration), Number(reward)]
}
