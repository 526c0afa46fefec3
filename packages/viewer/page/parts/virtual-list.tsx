import { formatCount } from '@osmosis/eval/analysis'
import type { ComponentChildren, JSX } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

import { usePrinting } from '../media/printing.ts'
import { scaled } from '../media/text-size.ts'

/** Of a line, as in the style sheet. */
const lineSize = 30

/** Lines that are rendered beyond the edges. */
const margin = 6

/** Lines that are printed: more would fill a thousand pages, and the memory of the browser. */
const maxPrinted = 20_000

interface VirtualListProps {
  readonly count: number
  /** The line that must be in view; -1 for none. */
  readonly focus: number
  /** Whether the line is brought into view now. Default: whenever it is another. */
  readonly isFollowing?: boolean
  /** `listbox` for lines that can be chosen, `region` for lines that are links. */
  readonly role: 'listbox' | 'region'
  readonly label: string
  /** A line at a place, `top` pixels from the top. */
  readonly render: (index: number, top: number) => ComponentChildren
  /** The id of the chosen line. */
  readonly active?: string | undefined
}

/** Renders only the lines in view, and all of them on paper. */
export function VirtualList(props: VirtualListProps): JSX.Element {
  const { count, focus, role, label, render, active, isFollowing = true } = props
  const box = useRef<HTMLDivElement>(null)
  const lineHeight = scaled(lineSize)
  const [view, setView] = useState({ top: 0, height: 800 })
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return undefined
    const observer = new ResizeObserver(() => {
      setView({ top: element.scrollTop, height: element.clientHeight })
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  useLayoutEffect(() => {
    if (box.current !== null && focus >= 0 && isFollowing)
      bringIntoView(box.current, focus * lineHeight, lineHeight)
  }, [focus, count, isFollowing])

  const isPrinting = usePrinting()
  const first = isPrinting ? 0 : Math.max(0, Math.floor(view.top / lineHeight) - margin)
  const end = isPrinting ? maxPrinted : Math.ceil((view.top + view.height) / lineHeight) + margin
  const last = Math.min(count, end)
  const lines: ComponentChildren[] = []
  for (let index = first; index < last; index++) lines.push(render(index, index * lineHeight))
  return (
    <div
      class="scroll"
      ref={box}
      role={role}
      aria-label={label}
      aria-activedescendant={active}
      tabIndex={0}
      onScroll={({ currentTarget }) => {
        const { scrollTop: top } = currentTarget
        setView((before) => ({ ...before, top }))
      }}
    >
      <div role="presentation" style={{ height: `${count * lineHeight}px` }}>
        {lines}
      </div>
      {isPrinting && last < count && (
        <p class="dim">{formatCount(count - last)} more are not printed.</p>
      )}
    </div>
  )
}

/** Scrolls so that two lines before and after are visible. */
function bringIntoView(element: HTMLElement, top: number, lineHeight: number): void {
  const { scrollTop, clientHeight } = element
  if (top < scrollTop + lineHeight) element.scrollTop = Math.max(0, top - lineHeight * 2)
  else if (top > scrollTop + clientHeight - lineHeight * 3) {
    element.scrollTop = top - clientHeight + lineHeight * 3
  }
}
