import type { JSX } from 'preact'

import type { ItemEnding } from '../../src/wire.ts'
import type { ItemProps } from '../parts/dot.tsx'
import { CopyButton } from '../text/block.tsx'
import { LongText } from '../text/long-text.tsx'

/** The part of a rollout that failed; null when its type and message do not say. */
function phaseOf(error: string): string | null {
  if (/grad|reward/i.test(error)) return 'the grader'
  return /workflow|agent|no_samples|tool/i.test(error) ? 'the workflow' : null
}

/** File and line of the first frame of a stack that is in user code; null when there is none. */
function placeIn(stack: string): string | null {
  for (const [, file = '', line = ''] of stack.matchAll(
    /(?:\(|at )((?:file:\/\/|\/|[A-Z]:\\)[^()\n]+?):(\d+):\d+/g,
  )) {
    if (!file.includes('node_modules') && !file.includes('node:')) {
      return `${file.replace('file://', '')}:${line}`
    }
  }
  return null
}

/** The error of an item and its stack; nothing for an item that did not fail. */
export function Failure({
  table,
  item,
  ending,
}: ItemProps & { ending: ItemEnding | null }): JSX.Element | null {
  const type = table.errorType(item)
  if (type === null) return null
  const text = ending?.error ?? table.document.columns.summary[item] ?? ''
  const place = placeIn(ending?.stack ?? '')
  const phase = phaseOf(`${type} ${text.slice(0, 60)}`)
  return (
    <div class="failure" role="group" aria-label="Error">
      <b>{type.replaceAll('_', ' ')}</b>
      {phase !== null && <span class="dim"> in {phase}</span>}{' '}
      {place !== null && <code class="mono">{place}</code>}{' '}
      <CopyButton text={[text, ending?.stack ?? ''].filter((part) => part !== '').join('\n\n')} />
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
