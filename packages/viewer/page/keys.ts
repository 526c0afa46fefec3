import { useLayoutEffect, useRef } from 'preact/hooks'

/** What a key does, by `KeyboardEvent.key`. */
export type Keys = Readonly<Record<string, (() => void) | undefined>>

/**
 * Listens to keys while the component is there. Nothing but Escape is a key for whoever is writing, and
 * a dialog keeps its keys for itself.
 */
export function useKeys(keys: Keys): void {
  // Two keys may come before the page is painted: the second means what the first has led to.
  const latest = useRef(keys)
  latest.current = keys
  // With what it is for, not after it has been painted: what can be seen listens.
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

/** Every key, as the reader is shown them. */
export const keyHelp: readonly (readonly [keys: string, what: string])[] = [
  ['j k', 'next, previous rollout'],
  ['[ ]', 'attempts at the same row'],
  ['s', 'next sample of the rollout'],
  ['d', 'first difference to another attempt'],
  ['n p', 'next, previous error in the transcript'],
  ['a', 'write a note'],
  ['1 – 9', 'the findings on the left'],
  ['f g x', 'failures, rows with a gradient, all'],
  ['/', 'filter'],
  ['t', 'light, dark, as the system'],
  ['esc', 'back'],
]
