import { InvalidArgumentError } from 'commander'

/** The value of a flag that names the base URL of an endpoint. */
export function endpointUrl(value: string): string {
  if (/^https?:\/\/./i.test(value) && URL.canParse(value)) return value
  throw new InvalidArgumentError('It must be an http or https URL, e.g. http://127.0.0.1:8000/v1.')
}
