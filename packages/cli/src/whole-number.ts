import { InvalidArgumentError } from 'commander'

/** The value of a flag that counts something. */
export function wholeNumber(value: string): number {
  if (/^\d+$/.test(value)) return Number(value)
  throw new InvalidArgumentError('It must be a whole number.')
}
