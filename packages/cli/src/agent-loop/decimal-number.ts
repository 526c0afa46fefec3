import { InvalidArgumentError } from 'commander'

/** The value of a flag that measures something. */
export function decimalNumber(value: string): number {
  const number = Number(value)
  if (value.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}
