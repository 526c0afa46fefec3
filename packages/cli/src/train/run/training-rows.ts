import { OsmosisError } from '@osmosis/core'
import { placeOf, rowValue, selectRows, type DatasetRow } from '@osmosis/eval'

import type { RowFlags } from '../../command/flags.ts'

/** Most held-out rows unless a file has them. */
const mostHeldOut = 50
const shownPlaces = 5

/** The rows that are trained, and those of the evaluations before and after. */
export interface TrainingRows {
  readonly rows: readonly DatasetRow[]
  readonly heldOut: readonly DatasetRow[]
}

/**
 * Splits the rows that flags select. Without held-out rows of their own, those of the split `validation` are held out;
 * without such a split every fifth row, the first of each five.
 *
 * @param all - every row of the dataset
 * @throws OsmosisError with code `invalid_dataset` when a trained row is of a split that must not be trained, or too few
 * rows are left
 */
export function splitRows(
  all: readonly DatasetRow[],
  heldOut: readonly DatasetRow[] | undefined,
  { where, sample, seed }: RowFlags & { readonly seed?: number | undefined },
): TrainingRows {
  const ofSplit = heldOut ?? all.filter((row) => splitOf(row) === 'validation')
  const own = heldOut === undefined ? all.filter((row) => splitOf(row) !== 'validation') : all
  const rows = selectRows(own, { where, sample, seed })
  assertTrainable(rows)
  if (heldOut !== undefined) return { rows, heldOut }
  if (ofSplit.length > 0) return { rows, heldOut: ofSplit.slice(0, mostHeldOut) }
  if (rows.length < 5) {
    throw new OsmosisError(
      'invalid_dataset',
      `A training needs at least 5 rows, of which one is held out, and ${rows.length === all.length ? 'the dataset has' : 'the flags leave'} ${rows.length}. Add rows, or pass --held-out <file>.`,
    )
  }
  const fifth = rows.filter((_, at) => at % 5 === 0).slice(0, mostHeldOut)
  const held = new Set(fifth)
  return { rows: rows.filter((row) => !held.has(row)), heldOut: fifth }
}

function splitOf(row: DatasetRow): string | undefined {
  return rowValue(row, 'split')
}

/** Figures of a model that was trained on test rows would say nothing. */
function assertTrainable(rows: readonly DatasetRow[]): void {
  for (const split of ['test', 'validation']) {
    const wrong = rows.filter((row) => splitOf(row) === split)
    if (wrong.length === 0) continue
    const places = wrong.slice(0, shownPlaces).map(placeOf).join(', ')
    const more = wrong.length > shownPlaces ? ` and ${wrong.length - shownPlaces} more` : ''
    throw new OsmosisError(
      'invalid_dataset',
      `The rows to train have rows of the split "${split}": ${places}${more}. Pass --where split=train, or remove them from the dataset.`,
    )
  }
}
