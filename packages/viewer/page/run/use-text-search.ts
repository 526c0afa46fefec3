import { useEffect, useState } from 'preact/hooks'

import type { Source } from '../source/source.ts'
import type { ShownRun } from './use-run.ts'

/** Shorter words are in nearly every transcript. */
const leastCharacters = 3

/** How long the reader may pause while typing. Milliseconds. */
const typingMs = 250

interface TextSearch {
  /** Items in whose transcripts the words are; undefined before that is known. */
  readonly found: ReadonlySet<number> | undefined
  readonly isSearching: boolean
}

const none: TextSearch = { found: undefined, isSearching: false }

/** Looks for words in the transcripts of a run. */
export function useTextSearch(source: Source, run: ShownRun, words: readonly string[]): TextSearch {
  const [found, setFound] = useState<TextSearch>(none)
  useEffect(() => {
    const long = words.filter((word) => word.length >= leastCharacters)
    if (long.length === 0 || source.search === undefined) {
      setFound(none)
      return undefined
    }
    const stop = new AbortController()
    const search = async (): Promise<void> => {
      try {
        const names = (await source.search?.(run.name, long, stop.signal)) ?? []
        const items = names.flatMap(([row, attempt]) => run.table.find(row, attempt) ?? [])
        if (!stop.signal.aborted) setFound({ found: new Set(items), isSearching: false })
      } catch {
        // What the table says of the words still counts.
        if (!stop.signal.aborted) setFound(none)
      }
    }
    setFound({ found: undefined, isSearching: true })
    const timer = setTimeout(() => {
      void search()
    }, typingMs)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [source, run.name, words.join('\n')])
  return found
}
