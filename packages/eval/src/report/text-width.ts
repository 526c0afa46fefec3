/** The text on one line, cut with an ellipsis where it would be wider. */
export function cutToWidth(text: string, width: number): string {
  // By code points, so that no character is cut in half.
  const characters = Array.from(plain(text))
  return characters.length > width
    ? `${characters.slice(0, width - 1).join('')}…`
    : characters.join('')
}

/** The text in lines of whole words; a word that is wider has a line to itself. */
export function wrapToWidth(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of plain(text).split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = ''
    }
    line += line === '' ? word : ` ${word}`
  }
  return [...lines, line]
}

/** Errors carry line feeds, and sometimes sequences that a terminal would obey. */
function plain(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()
}
