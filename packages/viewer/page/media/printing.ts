import { options } from 'preact'
import { useEffect, useState } from 'preact/hooks'

/** Whether the page is drawn for paper. */
export function usePrinting(): boolean {
  const [isPrinting, setIsPrinting] = useState(false)
  useEffect(() => {
    const begin = (): void => atOnce(() => setIsPrinting(true))
    const end = (): void => setIsPrinting(false)
    addEventListener('beforeprint', begin)
    addEventListener('afterprint', end)
    return () => {
      removeEventListener('beforeprint', begin)
      removeEventListener('afterprint', end)
    }
  }, [])
  return isPrinting
}

/** Draws a change before it returns: browsers print what is there when the listeners of `beforeprint` have returned. */
function atOnce(change: () => void): void {
  options.debounceRendering = (draw) => draw()
  try {
    change()
  } finally {
    delete options.debounceRendering
  }
}
