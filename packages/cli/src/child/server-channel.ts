import type { ChildProcess } from 'node:child_process'
import { Worker } from 'node:worker_threads'

import type { RowCheck } from '@osmosis/eval'
import type { ListeningServer } from '@osmosis/server'

import { endSignal } from '../command/command-context.ts'

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

/** Runs in a thread of its own: it continues when user code blocks the event loop. */
const watchParent = `
const { workerData: parent } = require('node:worker_threads')
setInterval(() => process.ppid === parent || process.kill(process.pid, 'SIGKILL'), 1000)`

/**
 * Ends this process with the process that started it to evaluate: an evaluation that is killed leaves no server behind,
 * whatever its user code does.
 */
export function endWithParent(): void {
  if (process.send === undefined) return
  // Not exit(), which waits for threads that wait for the file system.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  // This listener must not keep the process alive after its server has closed.
  process.channel?.unref()
  new Worker(watchParent, { eval: true, workerData: process.ppid, execArgv: [] }).unref()
}

/** Sends the address of the server to the parent process, if that listens. */
export function announceListening(
  { url }: ListeningServer,
  entrypoint: Omit<ListeningMessage, 'type' | 'url'>,
): void {
  if (process.send === undefined || endSignal() !== undefined) return
  process.send({ type: 'osmosis.listening', url, ...entrypoint } satisfies ListeningMessage)
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
