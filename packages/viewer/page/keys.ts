import { useLayoutEffect, useRef } from 'preact/hooks'

/** Actions by `KeyboardEvent.key`. */
export type Keys = Readonly<Record<string, (() => void) | undefined>>

/** Keys by which a part of the page scrolls that has the focus. */
const scrolling: ReadonlySet<string> = new Set([
  'ArrowUp',
  'ArrowDown',
  'ArrowLeft',
  'ArrowRight',
  ' ',
  'PageUp',
  'PageDown',
  'Home',
  'End',
])
const ownScrolling = '[role="region"][tabindex="0"], nav'

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
      // Buttons, links and branches that fold have these keys already.
      const isPressed = event.key === 'Enter' || event.key === ' '
      if (isPressed && target?.matches('button, a, input, summary')) return
      if (scrolling.has(event.key) && target?.closest(ownScrolling)) return
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
  ['j k ↓ ↑', 'next, previous rollout'],
  ['enter', 'the first rollout; from the filter too'],
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
  ['j k → ←', 'next, previous step of a training; enter opens it'],
  ['↓ ↑ → ←', 'cells of the rows of a training, when their list has the focus'],
  ['t', 'light, dark or system theme'],
  ['esc', 'back; out of a field'],
  ['?', 'these keys'],
]
