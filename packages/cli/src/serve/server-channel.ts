import type { ChildProcess } from 'node:child_process'

import type { RowCheck } from '@osmosis/eval'
import type { ListeningServer } from '@osmosis/server'

import { endSignal } from '../command/surroundings.ts'

/** What an entrypoint exports, which determines the protocol of its server. */
export type EntrypointKind = 'workflow' | 'agent-loop'

/** Message of a server to the process that started it. */
export interface ListeningMessage {
  readonly type: 'osmosis.listening'
  readonly url: string
  readonly kind: EntrypointKind
  /** Whether it declares a schema of its rows; then it answers `rowCheckBy`. */
  readonly hasSchema: boolean
  /** Whether its config sets its concurrency. */
  readonly isConfigured: boolean
  /** Whether its rollouts get rewards. */
  readonly hasGrader: boolean
  /** Whether its config limits the model calls of a rollout. */
  readonly limitsCalls: boolean
  /** Minimum size of the groups that its grader grades; null when it grades single rollouts. */
  readonly groupMinSize: number | null
}

/** True for a {@link ListeningMessage}. */
export function isListeningMessage(message: unknown): message is ListeningMessage {
  return (message as Partial<ListeningMessage> | null)?.type === 'osmosis.listening'
}

/**
 * Sends the address of the server to the parent process, if that listens, and exits with it: an
 * evaluation that is killed leaves no server behind.
 */
export function announceListening(
  { url }: ListeningServer,
  entrypoint: Omit<ListeningMessage, 'type' | 'url'>,
): void {
  if (process.send === undefined || endSignal() !== undefined) return
  process.send({ type: 'osmosis.listening', url, ...entrypoint } satisfies ListeningMessage)
  // Without the parent, no client waits for the running rollouts.
  process.once('disconnect', () => process.exit(1))
  // This listener must not keep the process alive after its server has closed.
  process.channel?.unref()
}

// A child process loads user code, and its parent has the rows: the parent sends them in batches.

interface CheckMessage {
  readonly type: 'osmosis.check_rows'
  readonly rows: Parameters<RowCheck>[0]
}

interface CheckedMessage {
  readonly type: 'osmosis.rows_checked'
  /** For each row, its violations of the schemas. */
  readonly problems: readonly (readonly string[])[]
}

/** Checks the rows that the parent process sends. */
export function answerRowChecks(check: RowCheck): void {
  const answer = async ({ rows }: CheckMessage): Promise<void> => {
    const problems = await check(rows)
    process.send?.({ type: 'osmosis.rows_checked', problems } satisfies CheckedMessage)
  }
  process.on('message', (message: unknown) => {
    if (!isOfType<CheckMessage>(message, 'osmosis.check_rows')) return
    // The parent detects a failure by the exit.
    answer(message).catch(() => process.exit(1))
  })
}

/** Lets a process that called {@link answerRowChecks} check rows. One check at a time. */
export function rowCheckBy(child: ChildProcess): RowCheck {
  return (rows) =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        child.off('message', onMessage)
        child.off('close', onClose)
      }
      const onMessage = (message: unknown): void => {
        if (!isOfType<CheckedMessage>(message, 'osmosis.rows_checked')) return
        settle()
        resolve(message.problems)
      }
      const onClose = (): void => {
        settle()
        reject(new Error('The process of the entrypoint ended while it checked rows.'))
      }
      child.on('message', onMessage)
      child.once('close', onClose)
      child.send({ type: 'osmosis.check_rows', rows } satisfies CheckMessage, (error) => {
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
