import { formatCount, formatQuantity } from '@osmosis/eval/analysis'
import { createContext, type JSX } from 'preact'
import { useContext, useEffect, useMemo, useState } from 'preact/hooks'

import { usePrinting } from '../media/printing.ts'
import { Boundary } from './boundary.tsx'
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

/** A longer text is shown as it is: a tree of it would take long. Characters. */
const maxLength = 200_000

/** The value of a text that is a JSON object or array with entries; undefined for any other text. */
function parsedJson(text: string): object | undefined {
  if (text.length > maxLength || !/^\s*[[{]/.test(text)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    // Numbers that JavaScript changes, and repeated keys, must not be shown as something else.
    if (typeof value !== 'object' || value === null || !isExact(text, value)) return undefined
    return Object.keys(value).length === 0 ? undefined : value
  } catch {
    return undefined
  }
}

function isExact(text: string, value: object): boolean {
  return comparable(text) === comparable(JSON.stringify(value))
}

/** Without spaces and escapes, in which writers differ. */
function comparable(json: string): string {
  return json
    .replaceAll(/\\u([\da-f]{4})/gi, (_, code: string) =>
      String.fromCodePoint(Number.parseInt(code, 16)),
    )
    .replaceAll(/\\[bfnrt/]|\s|\//g, '')
}

/** JSON data as a tree whose branches fold. */
function JsonTree({ value }: { value: object }): JSX.Element {
  return (
    <div class="json">
      <Entries value={value} depth={0} />
    </div>
  )
}

/** Entries that are shown at once. */
const pageSize = 100

function Entries({ value, depth }: { value: object; depth: number }): JSX.Element {
  const [shown, setShown] = useState(pageSize)
  const entries = Object.entries(value) as [string, unknown][]
  const left = entries.length - shown
  return (
    <ul>
      {entries.slice(0, shown).map(([key, entry]) => (
        <li key={key}>
          <Entry name={key} value={entry} depth={depth} />
        </li>
      ))}
      {left > 0 && (
        <li>
          <button class="fold" onClick={() => setShown(shown + 10 * pageSize)}>
            Show {formatCount(Math.min(left, 10 * pageSize))} of{' '}
            {formatQuantity(left, 'more entry', 'more entries')}
          </button>
        </li>
      )}
    </ul>
  )
}

/** Branches deeper than this start folded, and those with many entries. */
const openDepth = 1
const openEntries = 12

function Entry({
  name,
  value,
  depth,
}: {
  name: string
  value: unknown
  depth: number
}): JSX.Element {
  const size = typeof value === 'object' && value !== null ? Object.keys(value).length : 0
  const [isUnfolded, setIsUnfolded] = useState(depth < openDepth && size <= openEntries)
  const isPrinting = usePrinting()
  const isOpen = isPrinting || isUnfolded
  if (typeof value !== 'object' || value === null || size === 0) {
    return (
      <>
        <b>{name}</b> <Leaf value={value} />
      </>
    )
  }
  return (
    <details
      open={isOpen}
      onToggle={({ currentTarget }) => {
        if (!isPrinting) setIsUnfolded(currentTarget.open)
      }}
    >
      <summary>
        <b>{name}</b> <span class="dim">{Array.isArray(value) ? `[${size}]` : `{${size}}`}</span>
      </summary>
      {isOpen && <Entries value={value} depth={depth + 1} />}
    </details>
  )
}

function Leaf({ value }: { value: unknown }): JSX.Element {
  if (typeof value === 'string') {
    return (
      <span class="text">
        <LongText text={value} characters={400} lines={8} />
      </span>
    )
  }
  return <span class="value">{JSON.stringify(value)}</span>
}
