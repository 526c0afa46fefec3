import { InvalidArgumentError } from 'commander'

/** The value of a flag that counts something. */
export function wholeNumber(value: string): number {
  if (/^\d+$/.test(value)) return Number(value)
  throw new InvalidArgumentError('It must be a whole number.')
}

/** The value of a flag that names a port; 0 stands for any. */
export function portNumber(value: string): number {
  const port = /^\d+$/.test(value) ? Number(value) : Number.NaN
  if (port <= 65_535) return port
  throw new InvalidArgumentError('It must be a port number from 0 to 65535.')
}
