import type { Finding } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

/** What deserves a look first; the number is the key that filters by it. */
export function LookFirst({
  list,
  query,
  isEmpty,
  onQuery,
}: {
  list: readonly Finding[]
  query: string
  isEmpty: boolean
  onQuery: (query: string) => void
}): JSX.Element {
  return (
    <section aria-label="Look at first">
      <h2>Look at first</h2>
      {list.map((finding, index) => (
        <button
          key={finding.key}
          class={`finding ${finding.tone}`}
          aria-pressed={query === finding.query}
          onClick={() => onQuery(query === finding.query ? '' : finding.query)}
        >
          <i />
          <div>
            <b>{finding.title}</b>
            <span>{finding.detail}</span>
          </div>
          {index < 9 ? <kbd>{index + 1}</kbd> : <span />}
        </button>
      ))}
      {list.length === 0 && (
        <p class="calm">{isEmpty ? 'Nothing has ended yet.' : 'Nothing conspicuous.'}</p>
      )}
    </section>
  )
}
