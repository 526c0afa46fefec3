import {
  AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  type AgentWorkflowContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { run } from '../../../../test/kit/executed-rollouts.ts'

it('keeps keys of your own and their types', () => {
  const config = defineWorkflowConfig({
    name: 'search',
    maxIterations: 8,
    concurrency: { maxConcurrent: 4 },
  })
  const iterations: number = config.maxIterations
  expect([config.name, iterations, config.concurrency.maxConcurrent]).toEqual(['search', 8, 4])
})

it('needs a name and a sensible limit', () => {
  expect(() => defineWorkflowConfig({ name: ' ' })).toThrow(
    expect.objectContaining({
      code: 'invalid_config',
      message: 'defineWorkflowConfig needs a name: a non-empty string.',
    }),
  )
  for (const maxConcurrent of [0, -1, 1.5, Number.NaN]) {
    expect(() => defineGraderConfig({ name: 'g', concurrency: { maxConcurrent } })).toThrow(
      /at least 1/,
    )
  }
})

it.each([
  [{ waitSeconds: -1 }, 'waitSeconds'],
  [{ waitSeconds: Number.NaN }, 'waitSeconds'],
  [{ waitSeconds: 86_401 }, 'waitSeconds'],
  [{ minSize: 0 }, 'minSize'],
  [{ minSize: 1.5 }, 'minSize'],
])('refuses %j for groups', (group, name) => {
  expect(() => defineGraderConfig({ name: 'g', group })).toThrow(
    expect.objectContaining({
      code: 'invalid_config',
      message: expect.stringContaining(`group.${name} of "g" must be a`),
    }),
  )
})

it('gives every rollout a copy of the data, and shares models and tools', async () => {
  class Model {
    readonly settings = { temperature: 1 }
  }
  const model = new Model()
  const tool = (): string => 'result'
  const config = defineWorkflowConfig({
    name: 'w',
    limits: { steps: [1, 2] },
    model,
    tools: [tool],
  })
  const seen: (typeof config)[] = []
  class Workflow extends AgentWorkflow<typeof config> {
    async run(ctx: AgentWorkflowContext<typeof config>): Promise<void> {
      expect(ctx.config).toBe(this.config)
      seen.push(ctx.config)
      ctx.config.limits.steps.push(3)
    }
  }
  const backend = new LocalBackend({ workflow: Workflow, workflowConfig: config })
  await run(backend)
  await run(backend)

  expect(config.limits.steps).toEqual([1, 2])
  expect(seen.map(({ limits }) => limits.steps)).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ])
  expect(seen[0]?.model).toBe(model)
  expect(seen[0]?.tools[0]).toBe(tool)
})
