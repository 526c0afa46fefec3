import type { ListeningServer } from '@osmosis/server'

import { endSignal } from '../command/surroundings.ts'

/** What an entrypoint exports, and with it the protocol that it is served by. */
export type EntrypointKind = 'workflow' | 'agent-loop'

/** What a served entrypoint tells the process that started it. */
export interface ListeningMessage {
  readonly type: 'osmosis.listening'
  readonly url: string
  readonly kind: EntrypointKind
  /** Whether it declares the shape of its rows; then it answers to `metadataCheckBy`. */
  readonly hasSchema: boolean
  /** Whether it says itself how many of its rollouts may run at once, or that there is no limit. */
  readonly isConfigured: boolean
  /** Whether anything rewards its rollouts. */
  readonly hasGrader: boolean
  /** How many attempts at a row its grader has to see together; null when it judges each alone. */
  readonly groupMinSize: number | null
}

/** True for a {@link ListeningMessage}. */
export function isListeningMessage(message: unknown): message is ListeningMessage {
  return (message as Partial<ListeningMessage> | null)?.type === 'osmosis.listening'
}

/**
 * Tells a parent process, if one is listening, where the server is, and ends with it: an
 * evaluation that is killed leaves no server behind.
 */
export function announceListening(
  { url }: ListeningServer,
  entrypoint: Omit<ListeningMessage, 'type' | 'url'>,
): void {
  if (process.send === undefined || endSignal() !== undefined) return
  process.send({ type: 'osmosis.listening', url, ...entrypoint } satisfies ListeningMessage)
  // Killed with everything it served to: there is nobody left to drain for.
  process.once('disconnect', () => process.exit(1))
  // Listening for that must not keep a process alive that has closed its server.
  process.channel?.unref()
}
