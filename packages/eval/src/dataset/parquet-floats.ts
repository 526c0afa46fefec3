import type { SchemaTree } from 'hyparquet'

/** Whether there are floats of 32 or 16 bits in a column, however deep. */
export function hasShortFloats(schema: SchemaTree): boolean {
  return roundingOf(schema) !== undefined || schema.children.some(hasShortFloats)
}

/**
 * Gives the floats of 32 or 16 bits in a value of hyparquet the digits that were meant. As a number
 * of JavaScript, the 32-bit float next to 0.1 is 0.10000000149011612. Variants stay as they are.
 */
export function withMeantDigits(value: unknown, schema: SchemaTree): unknown {
  if (Array.isArray(value)) {
    const item = itemOf(schema)
    return value.map((part) => withMeantDigits(part, item))
  }
  if (typeof value === 'number') {
    const round = roundingOf(schema)
    return round ? shortestDecimal(value, round) : value
  }
  const isGroup = schema.children.length > 0 && schema.element.logical_type?.type !== 'VARIANT'
  if (typeof value !== 'object' || value === null || !isGroup) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => {
      const field = fieldOf(schema, key)
      return [key, field ? withMeantDigits(part, field) : part]
    }),
  )
}

/** The shortest decimal that rounds to this float. */
function shortestDecimal(float: number, round: (value: number) => number): number {
  for (let digits = 1; digits <= 9; digits += 1) {
    const decimal = Number(float.toPrecision(digits))
    if (round(decimal) === float) return decimal
  }
  return float
}

function roundingOf({ element }: SchemaTree): ((value: number) => number) | undefined {
  if (element.type === 'FLOAT') return Math.fround
  return element.logical_type?.type === 'FLOAT16' ? roundTo16Bits : undefined
}

/** What Math.f16round does, which Node.js 22 does not have; ties go to the even neighbour. */
function roundTo16Bits(value: number): number {
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), -14)
  const unit = 2 ** (exponent - 10)
  const steps = Math.round(value / unit)
  const isOddTie = steps - value / unit === 0.5 && steps % 2 !== 0
  return (isOddTie ? steps - 1 : steps) * unit
}

// hyparquet leaves out the groups between a list and its items, and between a map and its values.

function itemOf(schema: SchemaTree): SchemaTree {
  const [repeated] = schema.children
  if (schema.element.converted_type !== 'LIST' || repeated === undefined) return schema
  const [item, ...others] = repeated.children
  return item === undefined || others.length > 0 ? repeated : item
}

function fieldOf({ element, children }: SchemaTree, name: string): SchemaTree | undefined {
  const entry = element.converted_type === 'MAP' ? children[0] : undefined
  if (entry?.children.length === 2) return entry.children[1]
  return children.find((child) => child.element.name === name)
}
