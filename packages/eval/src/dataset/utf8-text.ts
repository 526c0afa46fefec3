const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of these bytes; undefined when they are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
