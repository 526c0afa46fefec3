/** Texts of types, of values that say nothing, and of prose, which stand where secrets do. */
const words =
  /^(?:str|string|int|integer|number|float|bool|boolean|bytes|char|varchar|text|any|object|dict|list|none|null|nil|undefined|void|true|false|yes|no|on|off|optional|required|default|unknown|missing|invalid|empty|here|self|this|value|name|type|the|an?|is|are|and|or|your|my|our|must|should|may|not)$/i
const placeholder = /^(?:[[<{$%*]|\.{2,}|x{3,}|your[ _-]|my[ _-]|process\.env|os\.)/i
const member = /^[A-Za-z_$][\w$]*(?:[?!]?\.[A-Za-z_$][\w$]*)+[?!]?$/

/** Whether a text is a word of a language. */
export function isWord(text: string): boolean {
  return /^\p{Lu}?[\p{Ll}\p{Lo}'-]+[.,!?:]?$|^\p{Lu}+[.,!?:]?$/u.test(text)
}

const compound =
  /(?:api|access|auth|private|client|session|refresh|bearer|id|signing|encryption|master|service|account|shared|ssh|aws|azure|gcp|webhook|deploy|bot|license|subscription|storage)[_.-]?(?:key|token)\W*$/i
const weak = /(?:^|[\W_]|[a-z](?=[KTCA]))(?:key|token|cookie|authorization)\W*$/i

/**
 * Whether what is assigned to a name is a secret, and not code, a placeholder or prose.
 *
 * @param keep - the name, with all up to the value
 * @param after - what follows the value
 */
export function isAssignedSecret(found: string, keep: string, after: string): boolean {
  if (words.test(found) || placeholder.test(found)) return false
  const isQuoted = /["'`]$/.test(keep)
  if (!isQuoted && member.test(found) && !/\d/.test(found)) return false
  const name = /^[^\s:=]*/.exec(keep)?.[0] ?? ''
  // As in files of variables: any word may be a value there.
  const isVariable = /^[A-Z][A-Z0-9_]*=["']?$/.test(keep)
  const isName = !isVariable && /^[\p{L}_$]+$/u.test(found)
  // A sentence continues: "Password: must have eight letters".
  const isSentence = !isQuoted && isWord(found) && /^[ ,;.]+\p{L}/u.test(after)
  if (/pwd/i.test(name)) return keep.includes('=') && !/^[/~.]/.test(found)
  if (/passw|passphrase|passcode/i.test(name)) return !isSentence
  const hasDigits = found.length >= 6 && /\d/.test(found) && /\p{L}/u.test(found)
  if (/secret|credential/i.test(name)) return hasDigits || !isName || (isQuoted && !isWord(found))
  if (compound.test(name)) return found.length >= 4 && !isName
  if (!weak.test(name) || !hasDigits) return false
  // `key: step_2` is the name of something.
  return !/key\W*$/i.test(name) || !/^[a-z]+(?:[_.-][a-z]+)*[_.-]?\d{1,4}$/i.test(found)
}

const hexadecimal = /^(?:[\da-f]+|[\dA-F]+|[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12})$/

/**
 * Whether a text was drawn at random, as keys are: its characters change their kind far more often than those of names,
 * paths and words do. Hashes, ids and other hexadecimal texts are not, because tasks are about them.
 */
export function isRandom(text: string): boolean {
  const bare = text.replace(/=+$/, '')
  if (hexadecimal.test(bare) || /^sha\d+-/.test(bare)) return false
  const isPath = bare.includes('/') && !bare.includes('+') && bare.length < 38
  const parts = /[+/]/.test(bare) ? [bare] : bare.split(/[-_]/)
  return !isPath && parts.some((part) => !hexadecimal.test(part) && isMixed(part))
}

function isMixed(text: string): boolean {
  const kinds = Array.from(text, (one) =>
    /\d/.test(one) ? 0 : /[a-z]/.test(one) ? 1 : /[A-Z]/.test(one) ? 2 : 3,
  )
  const changes = kinds.filter((kind, at) => at > 0 && kind !== kinds[at - 1]).length
  const share = changes / (text.length - 1)
  const digits = kinds.filter((kind) => kind === 0).length / text.length
  if (digits > 0.6 || entropy(text) < 3) return false
  if (kinds.includes(1) && kinds.includes(2)) {
    const least = text.length < 16 ? 0.6 : text.length < 24 ? 0.45 : 0.4
    const isSpelled = lengthIn(text, /[A-Z]?[a-z]{3,}/g) > text.length * 0.45
    return text.length >= 12 && digits > 0 && share > least && !isSpelled
  }
  const isSpelled = lengthIn(text, /[A-Za-z]{5,}/g) > text.length * 0.45
  return text.length >= 20 && digits > 0.1 && share > 0.28 && !isSpelled
}

function lengthIn(text: string, part: RegExp): number {
  return [...text.matchAll(part)].reduce((sum, [found]) => sum + found.length, 0)
}

/** Bits for each character. */
function entropy(text: string): number {
  const counts = Map.groupBy(text, (one) => one)
  return [...counts.values()].reduce((sum, { length }) => {
    const share = length / text.length
    return sum - share * Math.log2(share)
  }, 0)
}
