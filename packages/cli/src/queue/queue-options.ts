import type { Command } from 'commander'

/** Flags that say over which queue rollouts go. */
export interface QueueFlags {
  /** Its Redis, as a URL. */
  redis?: string
  /** What the names of its keys begin with. */
  redisPrefix?: string
  /** File with a key a line, for what is kept there. */
  queueKeyFile?: string
  allowPlainKeys?: boolean
  /** What fronts and workers compare instead of a digest of their sources. */
  codeVersion?: string
}

/**
 * Adds the flags that say over which queue rollouts go.
 *
 * @param redis - what naming one means for the command
 */
export function addQueueOptions(command: Command, redis: string): Command {
  return command
    .option(
      '--redis <url>',
      `${redis}: redis://<host>:<port>, or rediss:// for TLS; the password may stand in $OSMOSIS_REDIS_PASSWORD`,
    )
    .option(
      '--redis-prefix <prefix>',
      'what the names of all keys there begin with; another prefix is another queue (default: osmosis)',
    )
    .option(
      '--queue-key-file <file>',
      'encrypt what is kept there with the first key of this file, and read it with any: 32 bytes in base64, a line each',
    )
    .option(
      '--allow-plain-keys',
      'keep keys of policies and callers readable in a Redis that is not on this machine',
    )
    .option(
      '--code-version <version>',
      'what servers and workers compare, so that no worker runs rollouts of other code (default: a digest of the sources)',
    )
}
