import type { SchemaElement, SchemaTree } from 'hyparquet'

import { parseExactJson } from './exact-json.ts'
import { DataProblem } from './raw-row.ts'

/**
 * Makes hyparquet read the decimals of a column as integers, because it multiplies them as floats:
 * 1.15 would come out as 1.1500000000000001.
 *
 * @returns their digits after the point, for {@link toDecimal}; undefined for another column
 * @throws DataProblem for decimals that are nested or stored in a rare form
 */
export function takeDecimalScale({ element, children }: SchemaTree): number | undefined {
  if (children.some(hasDecimals) || (isDecimal(element) && element.type === 'BYTE_ARRAY')) {
    throw new DataProblem(
      'decimals inside of lists or structs, or stored as BYTE_ARRAY, cannot be read exactly; write them as text or floats',
    )
  }
  if (!isDecimal(element)) return undefined
  const logicalType = element.logical_type
  delete element.converted_type
  delete element.logical_type
  return element.scale ?? (logicalType?.type === 'DECIMAL' ? logicalType.scale : 0)
}

/** A decimal as `parseExactJson` returns it: `1.50` keeps its zero. */
export function toDecimal(unscaled: unknown, scale: number): unknown {
  if (unscaled === undefined || unscaled === null) return null
  const integer =
    unscaled instanceof Uint8Array ? toInteger(unscaled) : BigInt(unscaled as number | bigint)
  const digits = String(integer < 0n ? -integer : integer).padStart(scale + 1, '0')
  const point = digits.length - scale
  const fraction = scale === 0 ? '' : `.${digits.slice(point)}`
  return parseExactJson(`${integer < 0n ? '-' : ''}${digits.slice(0, point)}${fraction}`)
}

/** Big-endian, in two's complement. */
function toInteger(bytes: Uint8Array): bigint {
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString('hex')}`))
}

function hasDecimals({ element, children }: SchemaTree): boolean {
  return isDecimal(element) || children.some(hasDecimals)
}

function isDecimal(element: SchemaElement): boolean {
  return element.converted_type === 'DECIMAL' || element.logical_type?.type === 'DECIMAL'
}
