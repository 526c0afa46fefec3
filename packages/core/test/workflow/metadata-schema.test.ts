import {
  AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  Grader,
  type AgentWorkflowContext,
  type GraderContext,
  type MetadataSchema,
  rowProblems,
} from '@osmosis/core'
import { numericLabel } from '@osmosis/core/scores'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'
import { z } from 'zod'

import { run } from '../../../../test/kit/executed-rollouts.ts'

const config = defineWorkflowConfig({
  name: 'weather',
  metadata: z.object({
    city: z.string(),
    days: z.coerce.number().int().default(1),
    tags: z.string().transform((text) => text.split(',')),
  }),
})

const seen: unknown[] = []

class Weather extends AgentWorkflow<typeof config> {
  async run(ctx: AgentWorkflowContext<typeof config>): Promise<unknown> {
    const city: string = ctx.metadata.city
    const days: number = ctx.metadata.days
    const tags: string[] = ctx.metadata.tags
    // @ts-expect-error -- the schema has no such property
    seen.push([city, days, tags, ctx.metadata.country])
    return [{ role: 'assistant', content: city }]
  }
}

class InCity extends Grader<unknown, typeof config> {
  async grade(ctx: GraderContext<unknown, typeof config>): Promise<void> {
    // @ts-expect-error -- it is a number
    const wrong: string = ctx.metadata.days
    seen.push(wrong)
    ctx.setReward(ctx.metadata.tags.length)
  }
}

const backend = new LocalBackend({ workflow: Weather, workflowConfig: config, grader: InCity })

it('gives workflow and grader what the schema makes of the metadata, and changes nothing about the row', async () => {
  seen.length = 0
  const metadata = { city: 'Rome', days: '3', tags: 'a,b' }
  const { grading } = await run(backend, { metadata })

  expect(seen).toEqual([['Rome', 3, ['a', 'b'], undefined], 3])
  expect(grading?.samples.get('sample')?.reward).toBe(2)
  expect(metadata).toEqual({ city: 'Rome', days: '3', tags: 'a,b' })
})

it('fails a rollout whose metadata does not fit as validation_error, before user code runs', async () => {
  seen.length = 0
  const { completion, grading } = await run(backend, { metadata: { city: 7, tags: '' } })

  expect(completion?.failure).toMatchObject({
    category: 'validation_error',
    message:
      "The row does not fit the workflow's metadata schema: metadata.city: Invalid input: expected string, received number",
  })
  expect(grading).toBeUndefined()
  expect(seen).toEqual([])
})

it.each([
  ['3 or 4', '"3 or 4"'],
  [null, 'null'],
  ['', '""'],
  ['3,5', '"3,5"'],
  ['2024-01-05', '"2024-01-05"'],
])(
  'fails a rollout whose label %j cannot be graded, before user code runs',
  async (label, named) => {
    seen.length = 0
    const graderConfig = defineGraderConfig({ name: 'sums', label: numericLabel() })
    const sums = new LocalBackend({ workflow: Weather, grader: InCity, graderConfig })
    const row = { label, metadata: { city: 'Rome' } }
    const { completion } = await run(sums, row)
    expect(completion?.failure).toMatchObject({
      category: 'validation_error',
      message: expect.stringMatching(
        `^The label ${named} does not fit the grader's label schema: label: numeric needs a `,
      ) as string,
    })
    expect(seen).toEqual([])
    expect((await run(sums, { ...row, label: '4' })).completion?.status).toBe('success')
    expect((await run(sums, { ...row, grade: false })).completion?.status).toBe('success')
  },
)

it('takes a row without metadata for null, which a schema may allow', async () => {
  expect((await run(backend)).completion?.failure?.message).toContain('metadata: Invalid input')

  const optional = defineWorkflowConfig({
    name: 'w',
    metadata: z.object({ city: z.string() }).nullable(),
  })
  class Optional extends AgentWorkflow<typeof optional> {
    async run(ctx: AgentWorkflowContext<typeof optional>): Promise<unknown> {
      // @ts-expect-error -- it may be null
      seen.push(() => ctx.metadata.city)
      return [{ role: 'assistant', content: ctx.metadata?.city ?? 'nowhere' }]
    }
  }
  const { completion } = await run(
    new LocalBackend({ workflow: Optional, workflowConfig: optional }),
  )
  expect(completion?.status).toBe('success')
})

it('takes any Standard Schema, also one that answers later and is a plain object', async () => {
  interface Parsed {
    readonly upper: string
  }
  const schema: MetadataSchema<Parsed> = {
    '~standard': {
      version: 1,
      vendor: 'own',
      validate: async (value) => ({ value: { upper: JSON.stringify(value).toUpperCase() } }),
    },
  }
  const own = defineWorkflowConfig({ name: 'own', metadata: schema })
  class Own extends AgentWorkflow<typeof own> {
    async run(ctx: AgentWorkflowContext<typeof own>): Promise<unknown> {
      expect(ctx.config.metadata).toBe(schema)
      return [{ role: 'assistant', content: ctx.metadata.upper }]
    }
  }
  const { grading } = await run(
    new LocalBackend({ workflow: Own, workflowConfig: own, grader: LongAnswer }),
    { metadata: { a: 'b' } },
  )
  expect(grading?.samples.get('sample')?.reward).toBe(9)
})

class LongAnswer extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    const [message] = ctx.sample.messages as { content: string }[]
    ctx.setReward(message?.content.length ?? 0)
  }
}

it('refuses metadata in a config that is not a schema', () => {
  // @ts-expect-error -- data instead of a schema
  expect(() => defineWorkflowConfig({ name: 'w', metadata: { city: 'Rome' } })).toThrow(
    expect.objectContaining({
      code: 'invalid_config',
      message: expect.stringContaining('must be a schema'),
    }),
  )
})

it('refuses a label in a config of a grader that is not a schema', () => {
  // @ts-expect-error -- data instead of a schema
  expect(() => defineGraderConfig({ name: 'g', label: 'number' })).toThrow(
    expect.objectContaining({
      code: 'invalid_config',
      message: expect.stringContaining('must be a schema'),
    }),
  )
})

it.each([
  ['4', []],
  ['3,5', ['label: numeric needs a label that is one number']],
  [null, ['label: numeric needs a reference answer']],
])('names what is wrong with the label %j', async (label, problems) => {
  const graderConfig = defineGraderConfig({ name: 'g', label: numericLabel() })
  const found = await rowProblems({ graderConfig }, { label, metadata: null })
  expect(found.map((line) => line.slice(0, problems[0]?.length))).toEqual(problems)
  const withComma = { label: numericLabel({ decimalComma: true }) }
  const row = { label: '3,5', metadata: null }
  expect(await rowProblems({ graderConfig: withComma }, row)).toEqual([])
})
