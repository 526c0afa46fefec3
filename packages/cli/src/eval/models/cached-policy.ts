import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { PassingAnswer } from '@osmosis/core/policy'
import { cachedAnswer, type PolicyModel, type PolicyRequest } from '@osmosis/controller'
import type { EvaluationItem } from '@osmosis/eval'
import { writeFileAtomically } from '@osmosis/protocol/files'

/** A policy whose answers are stored in files. */
export interface CachedPolicy extends PolicyModel {
  /** To be called before the first model call of a rollout: its attempt is part of the key of its calls. */
  rolloutBegins(item: Pick<EvaluationItem, 'rolloutId' | 'runIndex'>): void
  rolloutEnds(rolloutId: string): void
}

/** What {@link cachedPolicy} keeps answers by, besides the request. */
export interface CacheOptions {
  /** Folder of the files, one for each answer. */
  readonly folder: string
  /** What else decides an answer: the address of the endpoint and the model. */
  readonly identity: readonly (string | null)[]
  /** Receives a sentence when an answer cannot be stored; the run continues without. */
  readonly warn: (text: string) => void
}

interface StoredAnswer {
  readonly content_type: string
  readonly body: string
}

/**
 * Answers a request that was answered before with the same bytes. The same request in another attempt at a row, or made
 * again in a rollout, has an answer of its own, so repeats differ as they did. Only whole answers are stored.
 */
export function cachedPolicy(policy: PolicyModel, options: CacheOptions): CachedPolicy {
  const rollouts = new Map<
    string,
    { readonly attempt: number; readonly seen: Map<string, number> }
  >()
  let hasFailed = false
  const store = async (file: string, answer: StoredAnswer): Promise<void> => {
    try {
      await mkdir(path.dirname(file), { recursive: true })
      await writeFileAtomically(file, JSON.stringify(answer), { mode: 0o600 })
    } catch (error) {
      if (!hasFailed) options.warn(`The cache cannot be written: ${errorMessage(error)}`)
      hasFailed = true
    }
  }
  const fileOf = ({ rolloutId, body }: PolicyRequest): string => {
    const { attempt = 0, seen = new Map<string, number>() } = rollouts.get(rolloutId) ?? {}
    const request = digest([...options.identity, body])
    const before = seen.get(request) ?? 0
    seen.set(request, before + 1)
    const key = digest([request, attempt, before])
    return path.join(options.folder, key.slice(0, 2), `${key}.json`)
  }
  return {
    name: policy.name,
    rolloutBegins: ({ rolloutId, runIndex }) => {
      rollouts.set(rolloutId, { attempt: runIndex, seen: new Map() })
    },
    rolloutEnds: (rolloutId) => void rollouts.delete(rolloutId),
    async respond(request) {
      const file = fileOf(request)
      const stored = await storedAnswer(file)
      if (stored !== undefined) {
        const headers = { 'content-type': stored.content_type, ...cachedAnswer }
        return new Response(stored.body, { headers })
      }
      const answer = await policy.respond(request)
      if (answer.status !== 200 || answer.body === null) return answer
      const contentType = answer.headers.get('content-type') ?? ''
      const body = storing(answer.body, contentType, (text) =>
        store(file, { content_type: contentType, body: text }),
      )
      return new Response(ReadableStream.from(body), { headers: answer.headers })
    },
  }
}

/** Forwards the bytes of an answer, and stores them before the last of them when they are a whole answer. */
async function* storing(
  bytes: AsyncIterable<Uint8Array>,
  contentType: string,
  store: (text: string) => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const pieces: Uint8Array[] = []
  let isWhole = false
  const reader = new PassingAnswer(contentType, {
    onAnswer: () => {
      isWhole = true
    },
    onBroken: () => {},
  })
  for await (const piece of bytes) {
    reader.add(piece)
    pieces.push(piece)
    yield piece
  }
  reader.end()
  if (isWhole) await store(Buffer.concat(pieces).toString('utf8'))
}

/** Undefined for an answer that is not stored, or whose file is damaged. */
async function storedAnswer(file: string): Promise<StoredAnswer | undefined> {
  try {
    const { content_type, body } = JSON.parse(await readFile(file, 'utf8')) as Partial<StoredAnswer>
    if (typeof content_type === 'string' && typeof body === 'string') return { content_type, body }
  } catch {
    // The policy is called again, and its answer stored.
  }
  return undefined
}

function digest(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts, sortedKeys)).digest('hex')
}

/** Objects with their keys in one order. */
function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
