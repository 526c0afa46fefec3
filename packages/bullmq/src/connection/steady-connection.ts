// How a connection stays one that answers, and that costs little.
import { ReplyError, type Redis } from 'ioredis'

/** How long Redis may take to answer. Milliseconds. */
export const answerMs = 5_000

/** Milliseconds before the next try to connect. */
export function nextTry(times: number): number {
  return Math.min(50 * 2 ** times, 1_000)
}

/** How many checks a connection may leave a PING unanswered. Blocking commands of BullMQ take up to two. */
const mostUnanswered = 3

/**
 * Opens a connection again that no longer answers, or gives the answers of other commands. Bytes that are no answer, as a
 * gateway sends, can begin one that never ends: all that follows is a part of it, and commands that wait would wait for
 * ever. Checks are counted, because time also passes while code of the user blocks the process.
 */
export function reopenWhenDeaf(redis: Redis): void {
  let asked = 0
  let unanswered = 0
  const reopen = (): void => {
    unanswered = 0
    redis.disconnect(true)
  }
  const ask = async (word: string): Promise<void> => {
    const answer: unknown = await redis.ping(word)
    // A connection with subscriptions answers with a list.
    if (String(answer).endsWith(word)) unanswered = 0
    else reopen()
  }
  const timer = setInterval(() => {
    if (redis.status !== 'ready') {
      unanswered = 0
    } else if (unanswered === 0) {
      unanswered = 1
      asked += 1
      ask(`osmosis-${asked}`).catch((error: unknown) => {
        // A user without the right to PING is answered as well.
        if (error instanceof ReplyError) unanswered = 0
      })
    } else if (unanswered < mostUnanswered) {
      unanswered += 1
    } else reopen()
  }, answerMs)
  timer.unref()
  redis.once('end', () => clearInterval(timer))
}

/** First words of the errors that another Redis behind the same address would not give. */
const elsewhere = /\b(?:READONLY|MASTERDOWN|LOADING|CLUSTERDOWN)\b|^UNBLOCKED\b/

/**
 * Whether a Redis refuses commands because it has become a replica, or is not ready to be a primary. After a failover it keeps
 * its connections, and only a new one reaches the primary. A blocked command is ended, and in a script of Redis 6 the word is
 * in the middle.
 */
export function isFromAnother({ message }: Error): boolean {
  return elsewhere.test(message)
}

/**
 * Sends all commands of one turn of the event loop with a single write, because a separate write takes
 * more time than all other work for a command.
 */
export function sendTogether(stream: Pick<Redis['stream'], 'write' | 'cork' | 'uncork'>): void {
  const write = stream.write.bind(stream)
  let isWaiting = false
  const writeLater = (...args: Parameters<typeof write>): boolean => {
    if (!isWaiting) {
      isWaiting = true
      stream.cork()
      setImmediate(() => {
        isWaiting = false
        stream.uncork()
      })
    }
    return write(...args)
  }
  stream.write = writeLater as typeof stream.write
}
