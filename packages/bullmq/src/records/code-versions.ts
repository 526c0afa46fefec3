/** Of what fronts and workers write for one another: another one when the other side would misread it. */
const protocolVersion = 3

/** What is kept in Redis and compared there: the digest of user code, and the version of the protocol. */
export function storedCode(code: string): string {
  return `${protocolVersion}:${code}`
}

/** For people, and for those who compare it with their own code. */
export function shownCode(stored: string): string {
  const [, version, code = stored] = /^(\d+):(.*)$/s.exec(stored) ?? []
  return Number(version) === protocolVersion ? code : `${code} (queue protocol ${version})`
}
