import type { ChildProcess } from 'node:child_process'

import type { AnyMetadata } from '@osmosis/core'
import type { MetadataCheck } from '@osmosis/eval'
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

// User code is loaded by a process of its own, and the rows are known to the one that started it: it
// sends them over, some at a time.

interface CheckMessage {
  readonly type: 'osmosis.check_metadata'
  readonly metadata: readonly AnyMetadata[]
}

interface CheckedMessage {
  readonly type: 'osmosis.metadata_checked'
  /** For each row, what does not fit. */
  readonly problems: readonly (readonly string[])[]
}

/** Lets this process judge the rows that its parent sends. */
export function answerMetadataChecks(check: MetadataCheck): void {
  const answer = async ({ metadata }: CheckMessage): Promise<void> => {
    const problems = await check(metadata)
    process.send?.({ type: 'osmosis.metadata_checked', problems } satisfies CheckedMessage)
  }
  process.on('message', (message: unknown) => {
    if (!isOfType<CheckMessage>(message, 'osmosis.check_metadata')) return
    // What is wrong with this process, the parent learns from its end.
    answer(message).catch(() => process.exit(1))
  })
}

/** Puts rows to a process that answers with {@link answerMetadataChecks}. One check at a time. */
export function metadataCheckBy(child: ChildProcess): MetadataCheck {
  return (metadata) =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        child.off('message', onMessage)
        child.off('close', onClose)
      }
      const onMessage = (message: unknown): void => {
        if (!isOfType<CheckedMessage>(message, 'osmosis.metadata_checked')) return
        settle()
        resolve(message.problems)
      }
      const onClose = (): void => {
        settle()
        reject(new Error('The process of the entrypoint ended while it checked rows.'))
      }
      child.on('message', onMessage)
      child.once('close', onClose)
      child.send({ type: 'osmosis.check_metadata', metadata } satisfies CheckMessage, (error) => {
        if (error === null) return
        settle()
        reject(error)
      })
    })
}

function isOfType<Message extends { readonly type: string }>(
  message: unknown,
  type: Message['type'],
): message is Message {
  return (message as Partial<Message> | null)?.type === type
}
