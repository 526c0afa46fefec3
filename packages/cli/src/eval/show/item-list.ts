import { formatReward } from '@osmosis/eval'

import { onOneLine, tableLines, type Cell } from '../../command/terminal-text.ts'
import { itemName, type ShownItem } from './shown-items.ts'

/** A table of items: name, reward, flags and the end of the conversation. */
export function itemLines(items: readonly ShownItem[], width: number): string[] {
  const measure = onOneLine(items[0]?.run.table.measure ?? 'reward')
  const value = measure === 'reward' ? 'Reward' : measure
  const head = ['Rollout', value, 'Flags', 'Ends with'].map((text): Cell => ({
    text,
    format: 'dim',
  }))
  const rows = items.map((shown) => [
    itemName(shown),
    rewardCell(shown),
    flagsCell(shown),
    endCell(shown),
  ])
  return tableLines([head, ...rows], { right: [1], width })
}

/** The reward or score of an item; a dash without one. */
export function rewardCell({ run: { table }, item }: ShownItem): Cell {
  const value = table.value(item)
  const text = value === null ? '–' : formatReward(value)
  return { text, format: table.passed(item) ? 'green' : 'red' }
}

/** `stuck ×5, cut`: the flags of an item, with the number of failed tool calls. */
export function flagsText({ run: { table }, item, event }: ShownItem): string {
  return table
    .signs(item)
    .map((sign) => {
      if (sign === 'failed') return onOneLine(event.error_type ?? sign)
      if (sign === 'stuck' || sign === 'toolerror') {
        return `${sign}${event.tool_errors > 1 ? ` ×${event.tool_errors}` : ''}`
      }
      return sign === 'unearned' ? 'unearned (possible reward hacking)' : sign
    })
    .filter(
      (sign, _, all) =>
        !sign.startsWith('toolerror') || !all.some((one) => one.startsWith('stuck')),
    )
    .join(', ')
}

function flagsCell(shown: ShownItem): Cell {
  const { table } = shown.run
  const isBad = (['unearned', 'failed', 'stuck', 'nocalls'] as const).some((sign) =>
    table.has(shown.item, sign),
  )
  return { text: flagsText(shown), format: isBad ? 'red' : 'yellow' }
}

function endCell({ event }: ShownItem): Cell {
  const text = onOneLine(event.error_message ?? event.summary)
  return event.status === 'failed' ? { text, format: 'red' } : { text }
}
