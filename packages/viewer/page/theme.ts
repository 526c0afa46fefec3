import { useEffect, useState } from 'preact/hooks'

/** The choice of the reader. */
export type Theme = 'system' | 'light' | 'dark'

const key = 'theme'
const darkSystem = matchMedia('(prefers-color-scheme: dark)')

export interface ThemeControl {
  readonly theme: Theme
  /** The displayed theme. */
  readonly look: 'light' | 'dark'
  /** Selects the next: the opposite of the system, the same as the system, the system. */
  readonly turn: () => void
}

export function useTheme(): ThemeControl {
  const [theme, setTheme] = useState<Theme>(storedTheme)
  const [system, setSystem] = useState(darkSystem.matches)
  useEffect(() => {
    const follow = (): void => setSystem(darkSystem.matches)
    darkSystem.addEventListener('change', follow)
    return () => darkSystem.removeEventListener('change', follow)
  }, [])
  const look = theme === 'system' ? (system ? 'dark' : 'light') : theme
  document.documentElement.dataset['theme'] = look
  const turn = (): void => {
    const order: Theme[] = system ? ['system', 'light', 'dark'] : ['system', 'dark', 'light']
    const next = order[(order.indexOf(theme) + 1) % order.length] ?? 'system'
    store(next)
    setTheme(next)
  }
  return { theme, look, turn }
}

/** A colour of the style sheet, for canvases. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(key)
    return stored === 'light' || stored === 'dark' ? stored : 'system'
  } catch {
    return 'system' // A browser may refuse to store anything, e.g. for files.
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem(key, theme)
  } catch {
    // The choice is lost when the page is closed.
  }
}
