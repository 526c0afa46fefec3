import { formatCount, formatQuantity, type RunQuery } from '@osmosis/eval/analysis'
import type { JSX, RefObject } from 'preact'

interface FilterBarProps {
  readonly field: RefObject<HTMLInputElement | null>
  readonly text: string
  readonly query: RunQuery
  /** The number of rollouts that match the filter, of all. */
  readonly shown: number
  readonly all: number
  readonly isSearching: boolean
  readonly onInput: (text: string) => void
  readonly onEnter: () => void
}

/** The filter line, and the number of matching rollouts. */
export function FilterBar(props: FilterBarProps): JSX.Element {
  const { field, text, query, shown, all, isSearching, onInput, onEnter } = props
  const [problem] = query.problems
  return (
    <div class="bar">
      <label class="search">
        <svg width="13" height="13" viewBox="0 0 13 13" aria-hidden="true">
          <circle cx="5.5" cy="5.5" r="4" fill="none" stroke="currentColor" stroke-width="1.3" />
          <path d="M8.6 8.6 12 12" stroke="currentColor" stroke-width="1.3" />
        </svg>
        <input
          ref={field}
          value={text}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          placeholder="Filter: is:stuck reward<0.5 tool:cancel tokens>800, or any words"
          aria-label="Filter"
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            onEnter()
          }}
        />
        <kbd>/</kbd>
      </label>
      <span class={`count${problem === undefined ? '' : ' problem'}`} role="status">
        {problem ??
          (shown === all
            ? formatQuantity(all, 'rollout')
            : `${formatCount(shown)} of ${formatCount(all)}`)}
        {problem === undefined && isSearching && ', searching'}
      </span>
    </div>
  )
}
