import { isDeepStrictEqual } from 'node:util'

import { isJsonObject } from '@osmosis/core/http'

/** A JSON schema, or a part of one. */
type Schema = unknown

/** Deeper references refer to themselves. */
const maxDepth = 32

/** The schema of a parameter of a tool; undefined when there is none. */
export function parameterSchema(
  root: Schema,
  name: string,
  schema: Schema = root,
  depth = 0,
): Schema {
  if (typeof schema !== 'object' || schema === null || depth > maxDepth) return undefined
  const { properties, additionalProperties: other } = schema as Record<string, unknown>
  if (isJsonObject(properties) && Object.hasOwn(properties, name)) return properties[name]
  for (const part of partsOf(schema, root)) {
    const found = parameterSchema(root, name, part, depth + 1)
    if (found !== undefined) return found
  }
  return isJsonObject(other) ? other : undefined
}

/**
 * Whether what a model wrote for a parameter is a text; otherwise it is the JSON of another value. The types of the
 * schema decide; where they accept both, JSON counts.
 *
 * @param value - the parsed JSON
 * @param root - what references refer to
 */
export function isTextBySchema(
  written: string,
  value: unknown,
  schema: Schema,
  root: Schema,
): boolean {
  if (!isJsonObject(schema) || !kinds.some((kind) => Object.hasOwn(schema, kind))) return false
  for (const exactly of [true, false]) {
    if (typeof value !== 'string' && accepts(schema, value, { root, exactly })) return false
    if (accepts(schema, written, { root, exactly })) return true
  }
  return false
}

const kinds = ['$ref', 'type', 'enum', 'const', 'anyOf', 'oneOf', 'allOf']

/** @param exactly - false: values have to be of the types of the listed ones only */
interface Acceptance {
  readonly root: Schema
  readonly exactly: boolean
}

function accepts(schema: Schema, value: unknown, how: Acceptance, depth = 0): boolean {
  if (!isJsonObject(schema) || depth > maxDepth) return true
  const accept = (part: Schema): boolean => accepts(part, value, how, depth + 1)
  const { type, enum: listed, anyOf, oneOf, allOf, nullable } = schema
  if (value === null && nullable === true) return true
  const isOfType = (one: unknown): boolean =>
    one === 'integer' ? Number.isInteger(value) : typeName(value) === one
  if (type !== undefined && ![type].flat().some(isOfType)) return false
  const values = Object.hasOwn(schema, 'const') ? [schema['const']] : listed
  const isLike = (one: unknown): boolean =>
    how.exactly ? isDeepStrictEqual(one, value) : typeName(one) === typeName(value)
  if (Array.isArray(values) && !values.some(isLike)) return false
  for (const choice of [anyOf, oneOf])
    if (Array.isArray(choice) && !choice.some(accept)) return false
  if (Array.isArray(allOf) && !allOf.every(accept)) return false
  return typeof schema['$ref'] !== 'string' || accept(referred(schema['$ref'], how.root))
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** The schemas that also count for the same value. */
function partsOf(schema: object, root: Schema): Schema[] {
  const { $ref: reference, allOf, anyOf, oneOf } = schema as Record<string, unknown>
  const lists = [allOf, anyOf, oneOf].flatMap((list) =>
    Array.isArray(list) ? (list as Schema[]) : [],
  )
  return typeof reference === 'string' ? [referred(reference, root), ...lists] : lists
}

/** What a reference such as `#/$defs/City` refers to; undefined for one that leads nowhere, or out of the schema. */
function referred(reference: string, root: Schema): Schema {
  if (!reference.startsWith('#')) return undefined
  const steps = reference.slice(1).split('/').slice(1)
  return steps.reduce((at: unknown, step) => {
    const key = unescaped(step)
    return typeof at === 'object' && at !== null && Object.hasOwn(at, key)
      ? (at as Record<string, unknown>)[key]
      : undefined
  }, root)
}

function unescaped(step: string): string {
  const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
  try {
    return decodeURIComponent(key)
  } catch {
    return key
  }
}
