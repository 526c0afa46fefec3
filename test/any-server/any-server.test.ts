import * as fc from 'fast-check'
import { beforeEach, expect, it, vi } from 'vitest'

import {
  conversations,
  failures,
  type PolicyTurn,
  type ServerDialect,
  serverDialects,
  tellsCallsApartByArguments,
} from '../kit/any-server/index.ts'
import { runs } from '../kit/index.ts'
import { agentsUnderTest } from './agents-under-test.ts'
import { expectFailed, expectRightConversation } from './check-outcome.ts'
import { startConversations } from './run-conversation.ts'

const few = { numRuns: runs(120) }
const more = { numRuns: runs(240) }

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

it('a conversation is the same, whatever the server of the policy makes of its answers', async () => {
  await expect(haveRightConversations(more)).resolves.toBeUndefined()
})

it('a rollout fails, wherever and however an answer breaks off', async () => {
  await expect(failWhereAnswersBreakOff(few)).resolves.toBeUndefined()
})

const nightly = { tags: 'nightly', timeout: 3_600_000 }

it('conversations are the same over 10,000 servers', nightly, async () => {
  await expect(haveRightConversations(manyDraws())).resolves.toBeUndefined()
})

it('rollouts fail over 10,000 servers whose answers break off', nightly, async () => {
  await expect(failWhereAnswersBreakOff(manyDraws())).resolves.toBeUndefined()
})

function manyDraws(): { numRuns: number; seed: number } {
  const seed = Math.trunc(Math.random() * 2 ** 31)
  process.stdout.write(`Draws of servers with seed ${seed}\n`)
  return { numRuns: 10_000, seed }
}

const agents = fc.constantFrom(...Object.entries(agentsUnderTest))

/** Draws agents, conversations and servers, and rejects at the first conversation that is not what the policy said. */
async function haveRightConversations(draws: fc.Parameters<unknown>): Promise<void> {
  const converse = await startConversations()
  await fc.assert(
    fc.asyncProperty(agents, conversations, serverDialects, async ([, run], drawn, dialect) => {
      const turns = drawnFor(dialect, drawn)
      expectRightConversation(await converse(run, turns, dialect), turns, dialect)
    }),
    draws as object,
  )
}

/** The same, with a last answer that breaks off. Rejects when one is graded. */
async function failWhereAnswersBreakOff(draws: fc.Parameters<unknown>): Promise<void> {
  const converse = await startConversations()
  const broken = [agents, conversations, serverDialects, failures] as const
  await fc.assert(
    fc.asyncProperty(...broken, async ([, run], drawn, dialect, failure) => {
      const turns = drawnFor(dialect, drawn)
      expectFailed(await converse(run, turns, dialect, failure), turns)
    }),
    draws as object,
  )
}

function drawnFor(dialect: ServerDialect, turns: readonly PolicyTurn[]): readonly PolicyTurn[] {
  return tellsCallsApartByArguments(dialect) ? turns.map(withWholeObjects) : turns
}

function withWholeObjects(turn: PolicyTurn): PolicyTurn {
  const calls = turn.calls.map((call, at) => {
    const text = call.written.trim()
    if (turn.isCut && at === turn.calls.length - 1) return { ...call, written: text || '{' }
    return { ...call, written: isObject(text) ? text : '{"a":1}' }
  })
  return { ...turn, calls }
}

function isObject(text: string): boolean {
  try {
    return text.startsWith('{') && typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}
