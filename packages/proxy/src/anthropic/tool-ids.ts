const allowed = /^[a-zA-Z0-9_-]+$/
const prefix = 'id64_'

/** The id of a tool call as Anthropic's clients accept it. */
export function toClientId(id: string): string {
  if (allowed.test(id) && !id.startsWith(prefix)) return id
  return prefix + Buffer.from(id).toString('base64url')
}

/** The id that the policy gave it. */
export function toPolicyId(id: string): string {
  return id.startsWith(prefix)
    ? Buffer.from(id.slice(prefix.length), 'base64url').toString('utf8')
    : id
}
