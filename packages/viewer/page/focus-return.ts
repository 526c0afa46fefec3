/** How long a view has to show what had the focus. Milliseconds. */
const patienceMs = 3000

/** Finds what had the focus in a view when it was left, by the entry of the history. */
const left = new Map<string, () => Element | undefined>()

/** Where the reader is: an entry of the history, and the view that it shows. */
export interface Visit {
  readonly entry: string
  /** The place of the view in the address, without what is chosen in it. */
  readonly view: string
}

/** The visit of the address as it is now. Going back leads to the same entry. */
export function currentVisit(): Visit {
  const state = history.state as { entry?: string } | null
  const entry = state?.entry ?? `${Date.now()} ${Math.random()}`
  if (state?.entry === undefined) history.replaceState({ entry }, '')
  return { entry, view: location.hash.split('?')[0] ?? '' }
}

/** Notes what has the focus when another view is about to be shown. */
export function leaveView(from: Visit, to: Visit): void {
  const { activeElement } = document
  if (from.view === to.view || activeElement === null || activeElement === document.body) return
  const { tagName } = activeElement
  const name = nameOf(activeElement)
  left.set(from.entry, () =>
    [...document.querySelectorAll(tagName)].find((each) => nameOf(each) === name),
  )
}

/** What an element is in any drawing of its view. */
function nameOf(element: Element): string {
  const attributes = ['href', 'aria-label'].map((name) => element.getAttribute(name) ?? '')
  return [...attributes, element.textContent].join(' ')
}

/**
 * Gives the focus to what had it when the view was left, or else to its content, as soon as that is drawn; unless the
 * reader is faster.
 */
export function arriveInView(from: Visit, to: Visit): void {
  if (from.view === to.view) return
  const until = performance.now() + patienceMs
  const look = (): void => {
    const { activeElement } = document
    if (
      currentVisit().view !== to.view ||
      (activeElement !== null && activeElement !== document.body)
    )
      return
    const wanted = left.get(to.entry) ?? contentOf
    const found = wanted() ?? (performance.now() > until ? contentOf() : undefined)
    if (found instanceof HTMLElement) found.focus({ preventScroll: true })
    else if (performance.now() <= until) setTimeout(look, 50)
  }
  // When the view before is gone.
  setTimeout(look, 50)
}

function contentOf(): Element | undefined {
  return document.querySelector('main[tabindex="0"], main [tabindex="0"]') ?? undefined
}
