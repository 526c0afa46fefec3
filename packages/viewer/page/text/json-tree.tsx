import type { JSX } from 'preact'
import { useState } from 'preact/hooks'

import { counted, thousands } from '../format.ts'
import { LongText } from './long-text.tsx'

/** A longer text is shown as it is: a tree of it would take long. Characters. */
const maxLength = 200_000

/** The value of a text that is a JSON object or array with entries; undefined for any other text. */
export function parsedJson(text: string): object | undefined {
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
export function JsonTree({ value }: { value: object }): JSX.Element {
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
            Show {thousands(Math.min(left, 10 * pageSize))} of{' '}
            {counted(left, 'more entry', 'more entries')}
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
  const [isOpen, setIsOpen] = useState(depth < openDepth && size <= openEntries)
  if (typeof value !== 'object' || value === null || size === 0) {
    return (
      <>
        <b>{name}</b> <Leaf value={value} />
      </>
    )
  }
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
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
