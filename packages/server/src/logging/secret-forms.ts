import { shortestValue } from './value-index.ts'

/**
 * The forms in which a key turns up in text: as it is, in a URL, in JSON, also in JSON that is a
 * string of JSON, in HTML, and in base64, also within a longer value such as the `user:key` of basic
 * authentication. Most keys are the same in the first few of them, and cost no more.
 */
export function formsOf(secret: string): string[] {
  const inJson = inString(secret)
  const forms = new Set([secret, inJson, inString(inJson), inHtml(secret)])
  const component = encoded(secret, encodeURIComponent)
  const query = new URLSearchParams({ '': secret }).toString().slice(1)
  // Python leaves slashes as they are, and the user of a URL has rules of its own.
  const python = component.replaceAll('%2F', '/')
  for (const inUrl of [component, python, encoded(secret, encodeURI), query, asUser(secret)]) {
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

function inString(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '"': '&quot;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
}

function inHtml(text: string): string {
  return text.replaceAll(/[&"<>']/g, (character) => entities[character] ?? character)
}

function asUser(secret: string): string {
  const url = new URL('http://host')
  url.username = secret
  return url.username
}

/** Half of a surrogate pair has no form in a URL. */
function encoded(secret: string, encode: (text: string) => string): string {
  try {
    return encode(secret)
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
