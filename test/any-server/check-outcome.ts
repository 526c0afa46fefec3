import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'
import { expect } from 'vitest'

import {
  givenId,
  hasWholeCalls,
  offeredTools,
  type PolicyTurn,
  type ServerDialect,
} from '../kit/any-server/index.ts'
import type { Outcome } from './run-conversation.ts'

const ofEveryObject = Object.getOwnPropertyNames(Object.prototype)

/** No answer of a policy may change what all code of the process shares. */
function expectUntouchedPrototypes(): void {
  expect(Object.getOwnPropertyNames(Object.prototype)).toStrictEqual(ofEveryObject)
  expect(Object.keys(Array.prototype)).toStrictEqual([])
}

/** An answer that broke off is a failure of the policy's endpoint, is never graded, and nothing of it runs. */
export function expectFailed(outcome: Outcome, turns: readonly PolicyTurn[]): void {
  expectUntouchedPrototypes()
  const failure: unknown = expect.any(String)
  expect(outcome).toMatchObject({ isRewarded: false, failure, category: 'http_error' })
  expectRightRuns(outcome, turns.slice(0, -1))
}

/** The record, the tools that ran and the next requests are what the policy said. */
export function expectRightConversation(
  outcome: Outcome,
  turns: readonly PolicyTurn[],
  dialect: ServerDialect,
): void {
  expectUntouchedPrototypes()
  expect(outcome).toMatchObject({ isRewarded: true, failure: undefined })
  expectRightRuns(outcome, turns)

  const { sample, requests } = outcome
  const recorded = (sample?.trajectoryMessages ?? []) as ChatMessage[]
  const said = turns.map((turn, number) => turnOf(turn, dialect, number, (text) => text))
  expect(assistantTurns(recorded).slice(0, turns.length)).toMatchObject(said)

  const last = requests[turns.length - 1] ?? []
  const sent = turns.slice(0, -1).map((turn, number) => turnOf(turn, dialect, number, objectOrNone))
  expect(assistantTurns(last)).toMatchObject(sent)
  expectResultsBehindTheirCalls(last)
  const end = turns.at(-1)
  const isAnswer = end?.text !== '' && end?.calls.length === 0 && !end.isCut
  if (isAnswer) expect(requests, 'requests behind the last answer').toHaveLength(turns.length)
  const isUsual = isAnswer && turns.every((turn) => turn.refusal === '' && !isCutInIt(turn))
  const blamed = ['limit_reached', 'model_error'].filter(
    (key) => key in (sample?.extraFields ?? {}),
  )
  if (isUsual) expect(blamed, 'fields that blame the policy').toStrictEqual([])
}

/** Each call has one result, in the turn and the order of the calls, and the agent adds nothing else. */
function expectResultsBehindTheirCalls(messages: readonly ChatMessage[]): void {
  const roles = messages.map(({ role }) => role)
  const begin = roles.indexOf('assistant')
  if (begin === -1) return
  let open: string[] = []
  for (const message of messages.slice(begin)) {
    if (message.role === 'assistant') {
      expect(open, 'calls without a result').toStrictEqual([])
      open = message.tool_calls?.map(({ id }) => id) ?? []
    } else {
      expect(message.role).toBe('tool')
      const at = open.indexOf(message.tool_call_id ?? '')
      // Templates without ids tell results apart by their order.
      expect(at, `the place of the result of ${message.tool_call_id}`).toBe(0)
      open.shift()
    }
  }
  expect(open, 'calls without a result').toStrictEqual([])
}

function expectRightRuns({ ran }: Outcome, turns: readonly PolicyTurn[]): void {
  const whole = turns.filter((turn) => !isCutInIt(turn))
  const due = sorted(runsOf(whole))
  // Frameworks may run the calls before the one that was cut, and check arguments by the schema of the tool only.
  const beforeCut = turns
    .filter(isCutInIt)
    .map((turn) => ({ ...turn, calls: turn.calls.slice(0, -1) }))
  const possible = sorted(runsOf([...whole, ...beforeCut], true))
  const runs = sorted(ran)
  expect(without(due, runs), 'calls that did not run').toStrictEqual([])
  expect(without(runs, possible), 'runs without a call').toStrictEqual([])
}

/** Whether the limit of length cut a turn, and not only ended it behind whole calls. */
function isCutInIt(turn: PolicyTurn): boolean {
  return turn.isCut && !hasWholeCalls(turn)
}

function without(all: readonly string[], others: readonly string[]): string[] {
  const left = [...others]
  return all.filter((one) => {
    const at = left.indexOf(one)
    if (at !== -1) left.splice(at, 1)
    return at === -1
  })
}

/** The tools that have to run, with their inputs; with those that may, because their input is JSON of another kind. */
function runsOf(turns: readonly PolicyTurn[], withOthers = false): [string, unknown][] {
  return turns.flatMap(({ calls }) =>
    calls.flatMap(({ name, written }): [string, unknown][] => {
      if (!(offeredTools as readonly string[]).includes(name)) return []
      if (written.trim() === '') return [[name, {}]]
      const input = parsedObject(written)
      // Some frameworks refuse arguments that could change prototypes.
      const mustRun = input !== undefined && !/"__proto__"|"constructor"/.test(written)
      if (mustRun) return [[name, input]]
      return withOthers ? otherJson(name, written) : []
    }),
  )
}

function otherJson(name: string, written: string): [string, unknown][] {
  try {
    return [[name, JSON.parse(written)]]
  } catch {
    return []
  }
}

/** Tools of one turn run in any order. Keys named `__proto__` reach no tool. */
function sorted(runs: readonly (readonly [string, unknown])[]): string[] {
  return runs
    .map(
      ([name, input]) =>
        `${name} ${JSON.stringify(input, (key, value: unknown) => (key === '__proto__' ? undefined : inOrder(value)))}`,
    )
    .toSorted()
}

function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function assistantTurns(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.filter(({ role }) => role === 'assistant')
}

/** A turn as it is recorded, or sent back with other arguments. */
function turnOf(
  { text, thinking, refusal, calls }: PolicyTurn,
  dialect: ServerDialect,
  number: number,
  toArguments: (written: string) => string,
): object {
  return {
    content: text === '' && calls.length > 0 ? null : text,
    ...(thinking === '' ? {} : { [fieldOf(dialect)]: thinking }),
    ...(refusal === '' ? {} : { refusal }),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ name, written }, place): unknown => ({
            id: givenId(dialect, number, place) || expect.stringMatching(/^call_[0-9a-f]{32}$/),
            function: { name, arguments: toArguments(written) },
            ...(dialect.hasSignatures
              ? { extra_content: { google: { thought_signature: 'c2ln' } } }
              : {}),
          })) as ChatToolCall[],
        }),
  }
}

function fieldOf({ thinking }: ServerDialect): string {
  return thinking === 'reasoning' ? 'reasoning' : 'reasoning_content'
}

/** Chat templates parse arguments, so what is not an object goes back as an empty one. */
function objectOrNone(written: string): string {
  return parsedObject(written) === undefined ? '{}' : written
}

function parsedObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? value : undefined
  } catch {
    return undefined
  }
}
