import type { RunTable, Sign } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

const tones: Partial<Record<Sign, 'bad' | 'warn'>> = {
  unearned: 'bad',
  failed: 'bad',
  stuck: 'bad',
  nocalls: 'bad',
  cut: 'warn',
  rewritten: 'warn',
}

const words: Record<Sign, string> = {
  unearned: 'unearned',
  failed: 'failed',
  stuck: 'stuck',
  nocalls: 'no model call',
  cut: 'cut off',
  rewritten: 'rewritten',
  toolerror: 'tool error',
  long: 'long',
  skipped: 'skipped',
}

/** What is conspicuous about an item, and its tag, the most important first. */
export function Signs({
  table,
  item,
  most,
}: {
  table: RunTable
  item: number
  most: number
}): JSX.Element {
  // A rollout that is stuck has errors of tools.
  const signs = table.signs(item)
  const found = signs.filter((sign) => sign !== 'toolerror' || !signs.includes('stuck'))
  const note = table.note(item)
  const shown = found.slice(0, note === undefined ? most : most - 1)
  return (
    <span class="signs">
      {note !== undefined && <span class="chip note">{note.tag || 'note'}</span>}
      {shown.map((sign) => (
        <span key={sign} class={`chip ${tones[sign] ?? ''}`}>
          {signText(table, item, sign)}
        </span>
      ))}
      {found.length > shown.length && <span class="dim">+{found.length - shown.length}</span>}
    </span>
  )
}

function signText(table: RunTable, item: number, sign: Sign): string {
  if (sign === 'failed') return table.errorType(item)?.replaceAll('_', ' ') ?? words.failed
  if (sign === 'stuck') return `stuck ×${table.document.columns.toolErrors[item] ?? 0}`
  return words[sign]
}
