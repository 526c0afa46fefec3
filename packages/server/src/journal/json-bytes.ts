export const quote = 0x22
const backslash = 0x5c
export const openBracket = 0x5b
export const closeBracket = 0x5d
export const openBrace = 0x7b
export const closeBrace = 0x7d

/** The index of the closing quote of the string that opens at `start`; the length of `json` when there is none. */
export function endOfText(json: Uint8Array, start: number): number {
  let end = start
  do {
    end = json.indexOf(quote, end + 1)
  } while (end !== -1 && isEscaped(json, end))
  return end === -1 ? json.length : end
}

function isEscaped(json: Uint8Array, at: number): boolean {
  let before = at
  while (json[before - 1] === backslash) before -= 1
  return (at - before) % 2 === 1
}
