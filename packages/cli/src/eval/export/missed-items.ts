import { formatReward } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import { onOneLine } from '../../command/terminal-text.ts'
import type { ShownItem } from '../show/shown-items.ts'
import type { ShownModel } from '../show/shown-run.ts'

/** An item that did not pass. */
export type MissedItem = Omit<ShownItem, 'run'> & { readonly run: ShownModel }

/** The items among these events that did not pass, without those whose samples were all removed. */
export function missedItems(run: ShownModel, events: readonly ItemEvent[]): MissedItem[] {
  return events.flatMap((event) => {
    const item = run.table.find(event.source_row_index, event.run_index)
    if (item === undefined || !run.table.counts(item) || run.table.passed(item)) return []
    return [{ run, item, event }]
  })
}

/** `reward 0, and 1 passes`; for a rollout that failed, its error. */
export function verdict({ event, item, run: { table } }: MissedItem): string {
  if (event.status === 'failed')
    return `${event.error_type ?? 'failed'}: ${event.error_message ?? ''}`
  const measure = onOneLine(table.measure)
  const value = table.value(item)
  if (value === null) return `no ${measure}`
  return `${measure} ${formatReward(value)}, and ${formatReward(table.document.threshold)} passes`
}
