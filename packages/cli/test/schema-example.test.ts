import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { z } from 'zod'

import { runs } from '../../../test/kit/index.ts'
import { schemaExample } from '../src/checks/rollout/scripted-probe.ts'

const key = fc.stringMatching(/^[a-z]{1,8}$/)

const { schema: schemas } = fc.letrec<{ schema: z.ZodType }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      z.string(),
      z.string().min(3).max(30),
      z.email(),
      z.iso.datetime(),
      z.uuid(),
      z.url(),
      z.number(),
      z.int().min(4).max(9),
      z.number().gt(2).lt(9),
      z.number().max(-3),
      z.boolean(),
      z.null(),
      z.literal('exactly'),
      z.enum(['a', 'b']),
      z.any(),
    ),
    fc.dictionary(key, tie('schema'), { maxKeys: 3 }).map((shape) => z.strictObject(shape)),
    tie('schema').map((item) => z.array(item)),
    tie('schema').map((item) => z.array(item).min(2)),
    tie('schema').map((inner) => inner.nullable()),
    fc.tuple(tie('schema'), tie('schema')).map((pair) => z.union(pair)),
  ),
}))

it('a policy without a model answers by any schema', () => {
  fc.assert(
    fc.property(schemas, (schema) => {
      const example = schemaExample(z.toJSONSchema(schema))
      expect(schema.safeParse(example).error?.message).toBeUndefined()
    }),
    { numRuns: runs(500) },
  )
})

it('a schema that names itself ends', () => {
  interface Tree {
    children: Tree[]
  }
  const tree: z.ZodType<Tree> = z.object({
    get children() {
      return z.array(tree)
    },
  })
  expect(JSON.stringify(schemaExample(z.toJSONSchema(tree))).length).toBeLessThan(500)
})
