import type { ChildProcess } from 'node:child_process'

import type { AnyMetadata } from '@osmosis/core'
import type { MetadataCheck } from '@osmosis/eval'

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
