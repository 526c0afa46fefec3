import { isDeepStrictEqual } from 'node:util'

import type { PolicyCall } from '@osmosis/core'

import { toSteps, type ConversationSteps } from './conversation-steps.ts'

/** The system messages at the start of a request. */
type Instructions = readonly unknown[]

/** What `extra` of a system step has where the instructions of a conversation change. */
interface InstructionsChange {
  readonly instructions_changed: true
  /** The agent that goes on, where it is known. */
  readonly agent?: string
}

/**
 * The steps of a conversation in which agents hand over to one another: each answer stands below the instructions that
 * its request had. The messages begin with those of the latest call alone.
 */
export function instructedSteps(
  messages: readonly unknown[],
  calls: readonly PolicyCall[],
): ConversationSteps {
  if (calls.every(({ instructions }) => instructions === null)) return toSteps(messages)
  const start = messages.findIndex((message) => !isInstruction(message))
  const latest = messages.slice(0, start)
  const callOf = new Map(calls.map((call) => [call.answerIndex, call]))
  const first = calls.find(({ answerIndex }) => answerIndex !== null)?.instructions ?? latest

  const shown = [...first]
  const placeOf = new Map<number, number>()
  const changes = new Map<number, InstructionsChange>()
  let current: Instructions = first
  const change = (next: Instructions, by: PolicyCall | undefined): void => {
    if (isDeepStrictEqual(next, current)) return
    const agent = by?.agent
    changes.set(shown.length, { instructions_changed: true, ...(agent ? { agent } : {}) })
    shown.push(...(next.length === 0 ? [{ role: 'system', content: '' }] : next))
    current = next
  }
  for (let at = start; at < messages.length; at++) {
    const call = callOf.get(at)
    if (call !== undefined) change(call.instructions ?? latest, call)
    placeOf.set(at, shown.length)
    shown.push(messages[at])
  }
  // The latest call was not answered.
  change(latest, calls.at(-1))

  const { steps, stepOf } = toSteps(shown)
  for (const [place, extra] of changes) {
    const step = stepOf[place]
    if (step !== undefined) step.extra = { ...step.extra, ...extra }
  }
  return {
    steps,
    stepOf: messages.flatMap((_, at) => stepOf[placeOf.get(at) ?? 0] ?? []),
  }
}

function isInstruction(message: unknown): boolean {
  const role = (message as { role?: unknown } | null | undefined)?.role
  return role === 'system' || role === 'developer'
}
