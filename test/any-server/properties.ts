import {
  conversations,
  failures,
  type PolicyTurn,
  type ServerDialect,
  serverDialects,
  tellsCallsApartByArguments,
} from '../kit/any-server/index.ts'
import * as fc from 'fast-check'

import { agentsUnderTest } from './agents-under-test.ts'
import { expectFailed, expectRightConversation } from './check-outcome.ts'
import { startConversations } from './run-conversation.ts'

const agents = fc.constantFrom(...Object.entries(agentsUnderTest))

/** Draws agents, conversations and servers, and rejects at the first conversation that is not what the policy said. */
export async function haveRightConversations(draws: fc.Parameters<unknown>): Promise<void> {
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
export async function failWhereAnswersBreakOff(draws: fc.Parameters<unknown>): Promise<void> {
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
