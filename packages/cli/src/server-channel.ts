import type { ListeningServer } from '@osmosis/server'

/** What a served entrypoint tells the process that started it. */
export interface ListeningMessage {
  readonly type: 'osmosis.listening'
  readonly url: string
}

/** True for a {@link ListeningMessage}. */
export function isListeningMessage(message: unknown): message is ListeningMessage {
  return (message as Partial<ListeningMessage> | null)?.type === 'osmosis.listening'
}

/**
 * Tells a parent process, if one is listening, where the server is, and ends with it: an
 * evaluation that is killed leaves no server behind.
 */
export function announceListening(listening: ListeningServer): void {
  if (process.send === undefined) return
  process.send({ type: 'osmosis.listening', url: listening.url } satisfies ListeningMessage)
  // Killed with everything it served to: there is nobody left to drain for.
  process.once('disconnect', () => process.exit(1))
  // Listening for that must not keep a process alive that has closed its server.
  process.channel?.unref()
}
