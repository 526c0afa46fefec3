import { InvalidArgumentError } from 'commander'

/** Reads the value of a flag that counts something of which there have to be `least`. */
export function countFrom(least: number): (value: string) => number {
  return (value) => {
    if (/^\d+$/.test(value) && Number(value) >= least) return Number(value)
    throw new InvalidArgumentError(`It must be a whole number, ${least} or more.`)
  }
}

/** The value of a flag that measures something. */
export function decimalNumber(value: string): number {
  const number = Number(value)
  if (value.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}
