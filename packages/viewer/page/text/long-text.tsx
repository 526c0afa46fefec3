import { formatCount, formatQuantity } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import { withoutControls } from '../format.ts'
import { usePrinting } from '../media/printing.ts'

/** Browsers lay out a text of this size without a pause. Characters. */
const maxShown = 200_000

/** The part of a text that is shown first. */
interface Cut {
  readonly text: string
  /** Label of the button that shows the rest; null when nothing is omitted. */
  readonly rest: string | null
}

/** A text that starts folded when it has many characters, or more lines than `lines`. */
export function LongText({
  text,
  characters,
  lines = Number.POSITIVE_INFINITY,
}: {
  text: string
  characters: number
  lines?: number
}): JSX.Element {
  const [isUnfolded, setIsUnfolded] = useState(false)
  const open = usePrinting() || isUnfolded
  const { text: short, rest } = cutText(text, characters, lines)
  if (rest === null) return <>{withoutControls(text)}</>
  const toggle = (
    <button class="fold" aria-expanded={open} onClick={() => setIsUnfolded(!isUnfolded)}>
      {open ? 'Show less' : rest}
    </button>
  )
  if (!open) {
    return (
      <>
        {withoutControls(short)} {toggle}
      </>
    )
  }
  const isMore = text.length > maxShown
  return (
    <>
      {withoutControls(text.slice(0, maxShown))} {isMore && tooLong(text)}
      {toggle}
    </>
  )
}

function tooLong(text: string): JSX.Element {
  const left = formatCount(text.length - maxShown)
  return <em class="dim">… and {left} characters that are only in the file. </em>
}

function cutText(whole: string, characters: number, lines: number): Cut {
  const all = Number.isFinite(lines) ? whole.split('\n', 10_000) : []
  if (all.length > lines) {
    // Three lines fewer than the limit, so that a fold always hides several lines.
    const short = all.slice(0, lines - 3).join('\n')
    const many =
      all.length === 10_000 ? 'more than 10,000 lines' : formatQuantity(all.length, 'line')
    const text = short.length > characters ? `${short.slice(0, characters)}…` : short
    return { text, rest: `Show all ${many}` }
  }
  if (whole.length <= characters * 1.2) return { text: whole, rest: null }
  return {
    text: `${whole.slice(0, characters)}…`,
    rest: `Show all ${formatCount(whole.length)} characters`,
  }
}
