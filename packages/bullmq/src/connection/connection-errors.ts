import type { RedisAddress } from '@osmosis/protocol/wire'

/** What ioredis says when no Sentinel has named a primary, with what the last one said. */
const nowhere = /^All sentinels are unreachable\b.*?(?: Last error: (.*))?$/s
/** By what the address says. */
const closed = {
  clear: 'it closes the connection. The address of a Redis with TLS begins with rediss://.',
  tls: 'it closes the connection. It may ask for the certificate of a client.',
} as const
/** A Redis with TLS ends a connection that begins in clear text, before or after it was asked something. */
const resets = /^(?:ECONNRESET|EPIPE)$/
/** What helps, by the code or the message of an error. */
const hints: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:WRONGPASS|NOAUTH)\b/,
    'Start this process with the password that it takes now (OSMOSIS_REDIS_PASSWORD, or in the address).',
  ],
  [
    /^(?:SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY)$/,
    'Name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS, before this process starts.',
  ],
]

/** Whether the other side ended a connection. */
export function isReset(error: unknown): boolean {
  return resets.test(codeOf(error))
}

/** The error of a Redis that ends connections without a word. */
export function hungUp({ tls }: RedisAddress): Error {
  return new Error(closed[tls ? 'tls' : 'clear'])
}

/** An error without the words of ioredis: it counts Sentinels, and does not name the primary that none of them knows. */
export function withoutIoredis(error: Error, { name }: RedisAddress): Error {
  const [found, said] = nowhere.exec(error.message) ?? []
  if (found === undefined) return error
  const why = said === undefined || said.startsWith('Connection is closed') ? 'none answers' : said
  return new Error(`no Sentinel names the primary ${name}: ${why}`)
}

/** What helps against an error of a connection or of Redis, as a sentence; undefined where nobody knows. */
export function hintFor(error: unknown): string | undefined {
  const text = error instanceof Error ? error.message : String(error)
  const [, hint] = hints.find(([sign]) => sign.test(text) || sign.test(codeOf(error))) ?? []
  return hint
}

function codeOf(error: unknown): string {
  return String((error as NodeJS.ErrnoException | undefined)?.code)
}
