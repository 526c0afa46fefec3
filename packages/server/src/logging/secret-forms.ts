import { shortestValue } from './value-search.ts'

/**
 * The forms in which a key turns up in text: as it is, in a URL, in JSON, and in base64, also within
 * a longer value such as the `user:key` of basic authentication.
 */
export function formsOf(secret: string): string[] {
  const forms = new Set([secret, JSON.stringify(secret).slice(1, -1)])
  for (const inUrl of [encoded(secret), new URLSearchParams({ '': secret }).toString().slice(1)]) {
    forms.add(inUrl)
    forms.add(inUrl.replaceAll(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()))
  }
  const bytes = Buffer.from(secret)
  forms.add(bytes.toString('base64'))
  for (const before of [0, 1, 2]) {
    const inner = innerBase64(bytes, before)
    forms.add(inner)
    forms.add(inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return [...forms].filter((form) => form.length >= shortestValue)
}

/** Half of a surrogate pair has no form in a URL. */
function encoded(secret: string): string {
  try {
    return encodeURIComponent(secret)
  } catch {
    return secret
  }
}

/**
 * What base64 makes of `bytes` behind `before` others: the letters that no byte outside has a part
 * in. A letter has 6 bits.
 */
function innerBase64(bytes: Buffer, before: number): string {
  const letters = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
  const first = Math.ceil((before * 8) / 6)
  const end = Math.floor(((before + bytes.length) * 8) / 6)
  return letters.slice(first, end)
}
