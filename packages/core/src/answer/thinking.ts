/** Tags of thinking. Those in a quotation, such as a string of JSON or code in backticks, are text of the answer. */
const tags = /"(?:[^"\\\n]|\\.){0,20000}"|`[^`\n]{0,2000}`|<(?<slash>\/?)think(?:ing)?>/gi
const endTag = /<\/think(?:ing)?>/gi

/**
 * A text without the thinking that a server left in it: `<think>…</think>`, also `<thinking>`, in any case. Without its
 * end tag thinking was cut off and is the rest of the text; without its start tag, which a chat template may have put
 * into the prompt, it is all before the end tag. Tags in quotation marks or backticks are text.
 */
export function withoutThinking(text: string): string {
  let kept = ''
  let from = 0
  const search = new RegExp(tags)
  for (let tag = search.exec(text); tag !== null; tag = search.exec(text)) {
    const slash = tag.groups?.['slash']
    if (slash === undefined) continue
    if (slash === '/') {
      kept = ''
    } else {
      kept += text.slice(from, tag.index)
      const end = new RegExp(endTag)
      end.lastIndex = search.lastIndex
      if (end.exec(text) === null) return kept.trim()
      search.lastIndex = end.lastIndex
    }
    from = search.lastIndex
  }
  return from === 0 ? text : (kept + text.slice(from)).trim()
}
