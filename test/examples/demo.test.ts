import { globSync } from 'node:fs'

import { expect, it } from 'vitest'

import { root } from './command.ts'
import { passedOf, evaluations, steps } from './demo.ts'

const last = steps.at(-1) ?? ''

it('an evaluation of the demo can be graded again, exported and read', async () => {
  const [evaluation = ''] = evaluations
  // Its policy continues after the other evaluations of this process.
  expect(await passedOf(evaluation, 5)).toBeGreaterThan(0)
})

it('the demo ends with the command that opens the viewer on what it has run', () => {
  const command = last.slice(last.indexOf('npx osmosis '))
  const [, , ...args] = command.split(' ')
  expect(args).toEqual(['eval', 'view', '--output', 'examples/.osmosis/evals'])
})

it('the demo is made of evaluations, and says last how to read them', () => {
  expect(steps).toEqual([...evaluations, last])
  expect(evaluations).toHaveLength(6)
  expect(last).toMatch(/^echo /)
})

it('the demo runs the eval config of every framework that has an adapter', () => {
  const configs = globSync(
    'examples/configs/eval/*-{openai-agents,strands,ai-sdk,langgraph,google-adk}.toml',
    {
      cwd: root,
    },
  )
  expect(configs).toHaveLength(5)
  expect(evaluations.map((evaluation) => evaluation.split(' ').at(-1) ?? '')).toEqual(
    expect.arrayContaining(configs),
  )
})
