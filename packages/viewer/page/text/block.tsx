import { createContext, type JSX } from 'preact'
import { useContext, useEffect, useMemo, useState } from 'preact/hooks'

import { Boundary } from './boundary.tsx'
import { JsonTree, parsedJson } from './json-tree.tsx'
import { LongText } from './long-text.tsx'
import { Markdown, parsedMarkdown } from './markdown.tsx'

/** Whether texts are shown as they were written. */
export const Raw = createContext(false)

interface BlockProps {
  readonly text: string
  /** Shown of a text before it is unfolded. */
  readonly characters: number
  readonly lines?: number
}

/** A text of a transcript: JSON as a tree, Markdown rendered, everything else as it is; each can be copied. */
export function Block({ text, characters, lines }: BlockProps): JSX.Element {
  const isRaw = useContext(Raw)
  const json = useMemo(() => parsedJson(text), [text])
  const isShort = text.length <= characters * 4
  const markdown = useMemo(() => (isShort ? parsedMarkdown(text) : undefined), [text, isShort])
  const plain = (
    <LongText text={text} characters={characters} {...(lines === undefined ? {} : { lines })} />
  )
  return (
    <div class="block">
      <Boundary of={text} instead={() => plain}>
        {!isRaw && json !== undefined ? (
          <JsonTree value={json} />
        ) : !isRaw && markdown !== undefined ? (
          <Markdown tokens={markdown} />
        ) : (
          plain
        )}
      </Boundary>
      <CopyButton text={text} />
    </div>
  )
}

/** How long a button says that it has copied. Milliseconds. */
const saidMs = 1500

/** Copies a text. Nothing where the browser gives pages no clipboard. */
export function CopyButton({ text }: { text: string }): JSX.Element | null {
  const [state, setState] = useState<'ready' | 'copied' | 'refused'>('ready')
  useEffect(() => {
    if (state === 'ready') return undefined
    const timer = setTimeout(() => setState('ready'), saidMs)
    return () => clearTimeout(timer)
  }, [state])
  // Undefined outside of secure contexts.
  const clipboard = navigator.clipboard as Clipboard | undefined
  if (clipboard === undefined) return null
  const copy = (): void => {
    clipboard.writeText(text).then(
      () => setState('copied'),
      () => setState('refused'),
    )
  }
  return (
    <button class="copy" onClick={copy}>
      {{ ready: 'Copy', copied: 'Copied', refused: 'Not allowed' }[state]}
    </button>
  )
}
