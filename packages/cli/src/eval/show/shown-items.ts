import type { Stored } from '@osmosis/eval'
import {
  parseQuery,
  parseRolloutName,
  rolloutName,
  selectItems,
  type ItemEvent,
} from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'

import { invalid } from '../../command/wrong-use.ts'
import type { ShownRun } from './shown-run.ts'

/** An item of a run: its place in the table, and its event. */
export interface ShownItem {
  readonly run: ShownRun
  /** Its place in the columns of the table. */
  readonly item: number
  readonly event: ItemEvent
}

/** The transcripts of an item, by sample id. */
export type StoredTranscripts = Stored<Readonly<Record<string, Trajectory>>>

/** `12.1`: the name of an item in commands. */
export function itemName({ event }: Pick<ShownItem, 'event'>): string {
  return rolloutName(event)
}

/** The items of a run, by row and attempt; of one row if wanted. */
export function itemsOf(run: ShownRun, row?: number): ShownItem[] {
  return run.events.flatMap((event) => {
    if (row !== undefined && event.source_row_index !== row) return []
    const item = run.table.find(event.source_row_index, event.run_index)
    return item === undefined ? [] : [{ run, item, event }]
  })
}

/**
 * The items that match a filter, in its order. Plain words are also searched in the transcripts.
 *
 * @throws OsmosisError with code `invalid_config` for an invalid filter
 */
export async function filterItems(run: ShownRun, filter: string): Promise<ShownItem[]> {
  const { table } = run
  const { words, problems } = parseQuery(filter, table)
  const [problem] = problems
  if (problem !== undefined) {
    // A part of a filter would list other rollouts.
    throw invalid(`Cannot filter the rollouts. ${problem}`)
  }
  const query = parseQuery(filter, table, { found: await findInTranscripts(run, words) })
  const byItem = new Map(itemsOf(run).map((shown) => [shown.item, shown]))
  return [...selectItems(table, query)].flatMap((item) => byItem.get(item) ?? [])
}

/** The items whose transcripts contain all of the words. */
async function findInTranscripts(
  { reader, table }: ShownRun,
  words: readonly string[],
): Promise<Set<number>> {
  let found: Set<number> | undefined
  for (const word of words) {
    const own = new Set<number>()
    for await (const event of reader.search(word)) {
      const item = table.find(event.source_row_index, event.run_index)
      if (item !== undefined) own.add(item)
    }
    const earlier: Set<number> | undefined = found
    found = earlier === undefined ? own : new Set([...own].filter((item) => earlier.has(item)))
  }
  return found ?? new Set()
}

/**
 * The items of a name: `12` a row, `12.1` an attempt at it.
 *
 * @throws OsmosisError with code `invalid_config` for an invalid name, and when no such item has ended
 */
export function namedItems(run: ShownRun, name: string): ShownItem[] {
  const named = parseRolloutName(name)
  if (named === undefined) {
    throw invalid(
      `A rollout is named by its row, counted from 0, and its attempt, counted from 1, such as 12 or 12.1, got ${name}.`,
    )
  }
  const { row, attempt } = named
  const ofRow = itemsOf(run, row)
  const { manifest } = run.reader
  if (ofRow.length === 0) {
    const isKnown = manifest.rows.some(({ source_row: own }) => own === row)
    throw invalid(
      isKnown
        ? `No rollout of row ${row} has ended in ${run.name} yet.`
        : `Row ${row} is not in ${run.name}, which has ${rowsText(run)}.`,
    )
  }
  if (attempt === undefined) return ofRow
  const found = ofRow.filter(({ event }) => event.run_index === attempt)
  if (found.length > 0) return found
  const known = ofRow.map((shown) => itemName(shown)).join(', ')
  throw invalid(`${run.name} has no rollout ${name}, but ${known}.`)
}

/** `rows 0-4, 7`: the first ranges of rows. */
function rowsText({ reader: { manifest } }: ShownRun): string {
  const ranges: [from: number, to: number][] = []
  for (const row of manifest.rows.map(({ source_row: own }) => own).toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && row <= last[1] + 1) last[1] = row
    else ranges.push([row, row])
  }
  const texts = ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`))
  const shown = texts.slice(0, 8).join(', ')
  return `the ${manifest.rows.length === 1 ? 'row' : 'rows'} ${shown}${texts.length > 8 ? ', …' : ''}`
}
