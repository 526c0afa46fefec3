import { stripVTControlCharacters } from 'node:util'

/** Control characters and marks of the text direction; not line feeds, tabs and joiners of letters. */
const controls = /[^\P{Cc}\n\t]|[^\P{Cf}\u200B-\u200D\uFEFF]/gu

/** What a command writes itself: colours, and starting a line anew. */
// oxlint-disable-next-line no-control-regex -- these are the characters that are looked for
const own = /(\u001B\[[\d;]*m|\r\u001B\[2?K)/

/**
 * What a command prints, without what could control the terminal otherwise: models, servers and code of users write texts
 * that set the clipboard or the title, or move the cursor. In what may be JSON such characters are escaped and not left
 * out: the value stays the same, and a text that only looks like JSON controls nothing either.
 */
export function withoutControls(text: string): string {
  const clean = /^\s*[{[]/.test(text) ? escaped : removed
  return text
    .split(own)
    .map((piece, at) => (at % 2 === 1 ? piece : clean(piece)))
    .join('')
}

function removed(text: string): string {
  return stripVTControlCharacters(text).replaceAll(/\r\n/g, '\n').replaceAll(controls, '')
}

function escaped(text: string): string {
  return text.replaceAll(controls, (sign) =>
    [...Array(sign.length).keys()]
      .map((at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  )
}
