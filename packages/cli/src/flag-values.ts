import { InvalidArgumentError } from 'commander'

/** Reads the value of a flag that counts something of which there have to be `least`, and `most` at most. */
export function countFrom(least: number, most = Infinity): (value: string) => number {
  return (value) => {
    const isCount = /^\d+$/.test(value) && Number(value) >= least && Number(value) <= most
    if (isCount) return Number(value)
    const range = most === Infinity ? `${least} or more` : `from ${least} to ${most}`
    throw new InvalidArgumentError(`It must be a whole number, ${range}.`)
  }
}

/** The value of a flag that says how many worker processes there are. */
export function workerCount(value: string): number | 'auto' {
  if (value === 'auto') return value
  if (/^\d+$/.test(value) && Number(value) >= 1) return Number(value)
  throw new InvalidArgumentError('It must be a whole number of at least 1, or auto.')
}

/** The value of a flag that measures something. */
export function decimalNumber(value: string): number {
  const number = Number(value)
  if (value.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}

/** The value of a flag that is a part of a whole. */
export function share(value: string): number {
  const number = decimalNumber(value)
  if (number >= 0 && number <= 1) return number
  throw new InvalidArgumentError('It must be a number from 0 to 1.')
}

/** The value of a flag that says how many, or which share of all. */
export function countOrShare(value: string): number {
  const number = decimalNumber(value)
  if (number > 0 && (number < 1 || Number.isSafeInteger(number))) return number
  throw new InvalidArgumentError('It must be a whole number of at least 1, or a share below 1.')
}

/** The value of a flag that says how much may be spent. */
export function dollars(value: string): number {
  const number = decimalNumber(value)
  if (number > 0) return number
  throw new InvalidArgumentError('It must be a number of US dollars above 0.')
}

/** The value of a flag that names a port; 0 stands for any. */
export function portNumber(value: string): number {
  const port = /^\d+$/.test(value) ? Number(value) : Number.NaN
  if (port <= 65_535) return port
  throw new InvalidArgumentError('It must be a port number from 0 to 65535.')
}

/** The value of a flag that names the base URL of an endpoint. */
export function endpointUrl(value: string): string {
  if (/^https?:\/\/./i.test(value) && URL.canParse(value)) return value
  throw new InvalidArgumentError('It must be an http or https URL, e.g. http://127.0.0.1:8000/v1.')
}

/** Collects the values of a flag that may be repeated. */
export function repeated(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value]
}
