import { useEffect, useState } from 'preact/hooks'

import type { Source } from '../source/source.ts'
import type { DisplayedRun } from './use-run.ts'

/** Shorter words are in nearly every transcript. */
const minCharacters = 3

/** The search starts after this pause in typing. Milliseconds. */
const typingMs = 250

interface TextSearch {
  /** Items whose transcripts contain the words; undefined while unknown. */
  readonly found: ReadonlySet<number> | undefined
  readonly isSearching: boolean
}

const none: TextSearch = { found: undefined, isSearching: false }

/** Searches for words in the transcripts of a run. */
export function useTextSearch(
  source: Source,
  run: DisplayedRun,
  words: readonly string[],
): TextSearch {
  const long = words.filter((word) => word.length >= minCharacters)
  const wanted = long.join('\n')
  const [search, setSearch] = useState({ wanted: '', result: none })
  useEffect(() => {
    if (wanted === '') return undefined
    const stop = new AbortController()
    const show = (result: TextSearch): void => {
      if (!stop.signal.aborted) setSearch({ wanted, result })
    }
    const look = async (): Promise<void> => {
      try {
        const names = await source.search(run.name, long, stop.signal)
        const items = names.flatMap(([row, attempt]) => run.table.find(row, attempt) ?? [])
        show({ found: new Set(items), isSearching: false })
      } catch {
        // Matches in the table remain.
        show(none)
      }
    }
    show({ found: undefined, isSearching: true })
    const timer = setTimeout(() => {
      void look()
    }, typingMs)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
    // A run that was read again may number its items differently.
  }, [source, run.name, run.table, wanted])
  // Results for other words do not apply.
  return search.wanted === wanted ? search.result : none
}
