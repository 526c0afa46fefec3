import type { RolloutContext } from '@osmosis/core'

import type { SessionRecord } from './session-record.ts'

// On globalThis, so that two installed copies of this package see the same sessions.
const sessionsKey = Symbol.for('osmosis.openai-agents.rollout-sessions')
type SessionsByRollout = WeakMap<RolloutContext, SessionRecord[]>
const holder = globalThis as { [sessionsKey]?: SessionsByRollout }
const sessions = (holder[sessionsKey] ??= new WeakMap<RolloutContext, SessionRecord[]>())

/** Notes that a session was made in a rollout. */
export function registerSession(context: RolloutContext, record: SessionRecord): void {
  const known = sessions.get(context)
  if (known) known.push(record)
  else sessions.set(context, [record])
}

/** The sessions of a rollout, oldest first. */
export function sessionsOf(context: RolloutContext): readonly SessionRecord[] {
  return sessions.get(context) ?? []
}
