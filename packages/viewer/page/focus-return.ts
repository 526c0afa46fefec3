/** How long a view has to show what had the focus. Milliseconds. */
const patienceMs = 3000

/** Finds what had the focus in a view when it was left, by the place of the view. */
const left = new Map<string, () => Element | undefined>()

/** The place of a view in an address, without what is chosen in it. */
function placeOf(hash: string): string {
  return hash.split('?')[0] ?? ''
}

/** Notes what has the focus when another view is about to be shown. */
export function leaveView(from: string, to: string): void {
  const { activeElement } = document
  if (placeOf(from) === placeOf(to) || activeElement === null || activeElement === document.body)
    return
  const { tagName } = activeElement
  const name = nameOf(activeElement)
  left.set(placeOf(from), () =>
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
export function arriveInView(from: string, to: string): void {
  if (placeOf(from) === placeOf(to)) return
  const until = performance.now() + patienceMs
  const look = (): void => {
    const { activeElement } = document
    if (location.hash !== to || (activeElement !== null && activeElement !== document.body)) return
    const wanted = left.get(placeOf(to)) ?? contentOf
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
