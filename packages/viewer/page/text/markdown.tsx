import { marked, type Token, type Tokens } from 'marked'
import type { ComponentChildren, JSX } from 'preact'

import { withoutControls } from '../format.ts'

const signs = [
  /(?:^|\n)(?:#{1,6} \S|[-*+] \S|\d{1,3}[.)] \S|> |\|.*\||```)/,
  /\*\*[^*\s][^*\n]*\*\*/,
  /`[^`\n]+`/,
  /\[[^\]\n]+\]\([^)\s]+\)/,
]

/** A longer text is shown as it is: reading it takes longer by the square of its length. Characters. */
const maxLength = 20_000
/** Deeper Markdown is shown as it is: each level takes some of the stack. */
const maxDepth = 24

/** What a text means as Markdown; undefined for one without any, and for what a page should not draw. */
export function parsedMarkdown(text: string): readonly Token[] | undefined {
  if (text.length > maxLength || !signs.some((sign) => sign.test(text))) return undefined
  try {
    const tokens = marked.lexer(text, { gfm: true, breaks: true })
    return isShallow(tokens, maxDepth) ? tokens : undefined
  } catch {
    // Nested so deeply that the stack was full.
    return undefined
  }
}

function isShallow(tokens: readonly Token[], depth: number): boolean {
  return tokens.every((token) => {
    const { tokens: inner = [], items = [] } = token as { tokens?: Token[]; items?: Token[] }
    const below = [...inner, ...items]
    return below.length === 0 || (depth > 0 && isShallow(below, depth - 1))
  })
}

/**
 * Markdown as elements. Nothing of it is parsed as HTML, no link can be followed and no image is loaded: what a model
 * wrote may be hostile.
 */
export function Markdown({ tokens }: { tokens: readonly Token[] }): JSX.Element {
  return <div class="markdown">{tokens.map(toElement)}</div>
}

function toElement(token: Token, at: number): ComponentChildren {
  switch (token.type) {
    case 'space':
      return null
    case 'heading':
      return (
        <p key={at} class="title">
          {/* Graders often look for these. */}
          <span class="dim">{'#'.repeat((token as Tokens.Heading).depth)}</span> {inline(token)}
        </p>
      )
    case 'paragraph':
      return <p key={at}>{inline(token)}</p>
    case 'blockquote':
      return <blockquote key={at}>{inline(token)}</blockquote>
    case 'code':
      return <pre key={at}>{withoutControls((token as Tokens.Code).text)}</pre>
    case 'hr':
      return <hr key={at} />
    case 'list':
      return <List key={at} list={token as Tokens.List} />
    case 'table':
      return <Table key={at} table={token as Tokens.Table} />
    case 'strong':
      return <strong key={at}>{inline(token)}</strong>
    case 'em':
      return <em key={at}>{inline(token)}</em>
    case 'del':
      return <del key={at}>{inline(token)}</del>
    case 'codespan':
      return <code key={at}>{withoutControls((token as Tokens.Codespan).text)}</code>
    case 'br':
      return <br key={at} />
    case 'link': {
      const { href, text } = token as Tokens.Link
      return (
        <u key={at} title={href}>
          {inline(token)}
          {text !== href && <span class="dim"> ({withoutControls(href)})</span>}
        </u>
      )
    }
    case 'text':
      return inline(token)
    default:
      // HTML, images and whatever else: as it was written.
      return withoutControls(token.raw)
  }
}

function inline(token: Token): ComponentChildren {
  const { tokens, text } = token as { tokens?: Token[]; text?: string }
  return tokens === undefined ? withoutControls(text ?? token.raw) : tokens.map(toElement)
}

function List({ list: { ordered, start, items } }: { list: Tokens.List }): JSX.Element {
  const lines = items.map((item, at) => (
    <li key={at}>
      {item.task && <span>{item.checked === true ? '☑ ' : '☐ '}</span>}
      {item.tokens.filter(({ type }) => type !== 'checkbox').map(toElement)}
    </li>
  ))
  return ordered ? <ol start={Number(start) || 1}>{lines}</ol> : <ul>{lines}</ul>
}

function Table({ table: { header, rows } }: { table: Tokens.Table }): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          {header.map((cell, at) => (
            <th key={at}>{cell.tokens.map(toElement)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at}>
            {row.map((cell, place) => (
              <td key={place}>{cell.tokens.map(toElement)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
