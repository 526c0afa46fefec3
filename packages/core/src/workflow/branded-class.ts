/**
 * True for a class that extends the one with this brand, of any installed copy of the package, and
 * implements the method that the base leaves abstract.
 */
export function implementsBranded(value: unknown, brand: symbol, method: string): boolean {
  if (typeof value !== 'function' || !(brand in value)) return false
  const prototype = value.prototype as Record<string, unknown> | undefined
  return typeof prototype?.[method] === 'function'
}
