import { isDeepStrictEqual } from 'node:util'

import { OsmosisError } from '../errors.ts'
import { isMetadataSchema, type MetadataSchema } from '../workflow/metadata-schema.ts'
import { lastJson, parseJson } from './last-json.ts'
import { reference } from './reference.ts'

/**
 * 1 when the JSON of the answer is the expected one, else 0: that of {@link lastJson}. The order of keys does not count,
 * and integers beyond 2^53 are compared exactly.
 *
 * @param expected - a label as JSON text, a value, or a schema of zod or another Standard Schema library
 * @throws OsmosisError with code `invalid_dataset` for a label that is not JSON; `invalid_config` for a value that JSON
 * cannot hold and for an asynchronous schema
 */
export function json(answer: string, expected: unknown): 0 | 1 {
  const isSchema = isMetadataSchema(expected)
  const isRight = isSchema ? fits(expected) : equals(expected)
  const said = lastJson(answer, { exactIntegers: !isSchema })
  return said !== undefined && isRight(said.value) ? 1 : 0
}

function fits(schema: MetadataSchema): (value: unknown) => boolean {
  return (value) => {
    const result = schema['~standard'].validate(value)
    if (!(result instanceof Promise)) return result.issues === undefined
    // No caller awaits it any more.
    result.catch(() => {})
    throw new OsmosisError(
      'invalid_config',
      'json needs a schema without asynchronous checks. Validate with the schema itself.',
    )
  }
}

const exact = { exactIntegers: true }

function equals(expected: unknown): (value: unknown) => boolean {
  if (typeof expected !== 'string' && expected !== null) {
    const wanted = parseJson(plainText(expected), exact)
    return (value) => isDeepStrictEqual(value, wanted?.value)
  }
  const label = reference('json', expected)
  const wanted = parseJson(label, exact)
  if (wanted !== undefined) return (value) => isDeepStrictEqual(value, wanted.value)
  throw new OsmosisError(
    'invalid_dataset',
    `json needs a label in JSON, got ${JSON.stringify(label.slice(0, 100))}.`,
  )
}

/** JSON would write NaN and Infinity as null. */
function plainText(expected: unknown): string {
  const text = JSON.stringify(expected, (_, value: unknown) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value
    throw new OsmosisError(
      'invalid_config',
      `json cannot compare with ${value}: JSON has no such number.`,
    )
  }) as string | undefined
  if (text !== undefined) return text
  throw new OsmosisError('invalid_config', `json needs a value of JSON, got ${typeof expected}.`)
}
