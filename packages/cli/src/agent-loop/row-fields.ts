import type { DatasetRow } from '@osmosis/eval'

/** What a row carries besides its messages and its ground truth. */
export function rowFields({ otherColumns, metadata }: DatasetRow): Record<string, unknown> {
  return { ...otherColumns, ...metadata }
}
