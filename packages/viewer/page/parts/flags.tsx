import type { RunTable, ItemFlag } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

const tones: Partial<Record<ItemFlag, 'bad' | 'warn'>> = {
  suspicious: 'bad',
  failed: 'bad',
  stuck: 'bad',
  nocalls: 'bad',
  cut: 'warn',
  rewritten: 'warn',
  limited: 'warn',
  modelerror: 'warn',
}

const words: Record<ItemFlag, string> = {
  suspicious: 'suspicious',
  failed: 'failed',
  stuck: 'stuck',
  nocalls: 'no model call',
  cut: 'cut off',
  rewritten: 'rewritten',
  limited: 'limit reached',
  modelerror: 'unusable answer',
  toolerror: 'tool error',
  long: 'long',
  skipped: 'skipped',
}

/** The flags and the tag of an item, the most important first. */
export function Flags({
  table,
  item,
  most,
}: {
  table: RunTable
  item: number
  most: number
}): JSX.Element {
  // A rollout that is stuck has errors of tools.
  const itemFlags = table.flags(item)
  const found = itemFlags.filter((flag) => flag !== 'toolerror' || !itemFlags.includes('stuck'))
  const note = table.note(item)
  const shown = found.slice(0, note === undefined ? most : most - 1)
  return (
    <span class="flags">
      {note !== undefined && <span class="chip note">{note.tag || 'note'}</span>}
      {shown.map((flag) => (
        <span key={flag} class={`chip ${tones[flag] ?? ''}`}>
          {signText(table, item, flag)}
        </span>
      ))}
      {found.length > shown.length && <span class="dim">+{found.length - shown.length}</span>}
    </span>
  )
}

function signText(table: RunTable, item: number, flag: ItemFlag): string {
  if (flag === 'failed') return table.errorType(item)?.replaceAll('_', ' ') ?? words.failed
  if (flag === 'stuck') return `stuck ×${table.document.columns.toolErrors[item] ?? 0}`
  return words[flag]
}
