import { useLayoutEffect, useRef } from 'preact/hooks'

/** Actions by `KeyboardEvent.key`. */
export type Keys = Readonly<Record<string, (() => void) | undefined>>

/** Handles keys while the component is mounted. Text fields react only to Escape, and dialogs to no key. */
export function useKeys(keys: Keys): void {
  // Two keys may arrive before the page is painted; the second one applies to the new state.
  const latest = useRef(keys)
  latest.current = keys
  // Before painting, so that everything visible reacts to keys.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return
      if (document.querySelector('dialog[open]') !== null) return
      const target = event.target instanceof HTMLElement ? event.target : null
      if (target?.matches('input:not([type=checkbox])')) {
        if (event.key === 'Escape') target.blur()
        return
      }
      // Buttons and links have these keys already.
      if ((event.key === 'Enter' || event.key === ' ') && target?.matches('button, a, input'))
        return
      const { current } = latest
      const action = Object.hasOwn(current, event.key) ? current[event.key] : undefined
      if (action === undefined) return
      event.preventDefault()
      action()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

/** All keys, for the help dialog. */
export const keyHelp: readonly (readonly [keys: string, what: string])[] = [
  ['j k', 'next, previous rollout'],
  ['[ ]', 'attempts at the same row'],
  ['s', 'next sample of the rollout'],
  ['d', 'first difference from another attempt'],
  ['n p', 'next, previous error in the transcript'],
  ['space PgDn PgUp Home End', 'scroll the transcript'],
  ['m', 'texts as they were written, or Markdown and JSON rendered'],
  ['a', 'write a note'],
  ['r', 'grade again with the edited grader, and compare'],
  ['1 – 9', 'the findings on the left'],
  ['f g x', 'not passed, rows with a training signal, all'],
  ['/', 'filter'],
  ['t', 'light, dark or system theme'],
  ['esc', 'back'],
]
