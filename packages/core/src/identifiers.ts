import { OsmosisError } from './errors.ts'

const maxLength = 256
const printableAscii = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

/**
 * Ids are sent as HTTP headers (`x-rollout-id`, `x-sample-id`), which preserve only printable ASCII.
 *
 * @throws OsmosisError with code `invalid_id`
 */
export function assertHeaderSafeId(kind: 'rollout' | 'sample', id: string): void {
  if (id.length <= maxLength && printableAscii.test(id)) return
  throw new OsmosisError(
    'invalid_id',
    `The ${kind} id ${JSON.stringify(id)} cannot be sent as the x-${kind}-id header: use 1 to ${maxLength} printable ASCII characters, with no space at either end.`,
  )
}

/** Whether `id` is safe as one segment of a URL or file path as well as in a header. */
export function isPathSegment(id: string): boolean {
  return (
    id.length <= maxLength &&
    printableAscii.test(id) &&
    !/[/\\]/.test(id) &&
    id !== '.' &&
    id !== '..'
  )
}
