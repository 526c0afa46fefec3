import type { ComponentChildren, JSX } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

import { scaled } from './text-size.ts'

/** Of a line, as in the style sheet. */
const lineSize = 30

/** Lines that are rendered beyond the edges. */
const margin = 6

interface VirtualListProps {
  readonly count: number
  /** The line that must be in view; -1 for none. */
  readonly focus: number
  /** `listbox` for lines that can be chosen, `region` for lines that are links. */
  readonly role: 'listbox' | 'region'
  readonly label: string
  /** A line at a place, `top` pixels from the top. */
  readonly render: (index: number, top: number) => ComponentChildren
  /** The id of the chosen line. */
  readonly active?: string | undefined
}

/** Renders only the lines in view. */
export function VirtualList(props: VirtualListProps): JSX.Element {
  const { count, focus, role, label, render, active } = props
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
    if (box.current !== null && focus >= 0)
      bringIntoView(box.current, focus * lineHeight, lineHeight)
  }, [focus, count])

  const first = Math.max(0, Math.floor(view.top / lineHeight) - margin)
  const last = Math.min(count, Math.ceil((view.top + view.height) / lineHeight) + margin)
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
