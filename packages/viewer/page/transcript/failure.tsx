import type { RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import type { ItemEnding } from '../../src/wire.ts'
import { LongText } from './long-text.tsx'

/** The error of an item and its stack; nothing for an item that did not fail. */
export function Failure({
  table,
  item,
  ending,
}: {
  table: RunTable
  item: number
  ending: ItemEnding | null
}): JSX.Element | null {
  const type = table.errorType(item)
  if (type === null) return null
  const text = ending?.error ?? table.document.columns.summary[item] ?? ''
  return (
    <div class="failure" role="group" aria-label="Error">
      <b>{type.replaceAll('_', ' ')}</b>
      {text !== '' && (
        <div class="message">
          <LongText key={text} text={text} characters={1200} lines={12} />
        </div>
      )}
      {ending !== null && ending.stack !== null && (
        <details>
          <summary>Stack</summary>
          <div class="message">
            <LongText key={ending.stack} text={ending.stack} characters={8000} />
          </div>
          <p>The complete output is in logs.txt of the run.</p>
        </details>
      )}
    </div>
  )
}
