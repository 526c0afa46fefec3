import { OsmosisError } from '@osmosis/core'

import type { ServeFlags } from '../serve/serve-options.ts'

/** @throws OsmosisError with code `invalid_config` for flags of `serve` that do not fit together */
export function assertQueueFlags(flags: ServeFlags): void {
  if (flags.redis === undefined) {
    const unfit = {
      '--redis-prefix': flags.redisPrefix,
      '--queue-key-file': flags.queueKeyFile,
      '--allow-plain-keys': flags.allowPlainKeys,
      '--code-version': flags.codeVersion,
      '--max-rollouts': flags.maxRollouts,
      '--max-queue-depth': flags.maxQueueDepth,
    }
    refuseOneOf(unfit, (flag) => `${flag} is about a queue: pass --redis as well.`)
    return
  }
  refuseOneOf(
    { '--outbox': flags.outbox },
    (flag) =>
      `${flag} and --redis exclude each other: the queue keeps what is accepted until it is told in full.`,
  )
  refuseOneOf(
    { '--run': flags.run || undefined },
    (flag) =>
      `${flag} and --redis exclude each other: the answer of POST /run is its result, which ends with the server that was asked, and a queue keeps rollouts for longer. Serve it without a queue, with --workers for more processes.`,
  )
  const ofWorkers = {
    '--workers': flags.workers,
    '--stall-timeout': flags.stallTimeout,
    '--progress-timeout': flags.progressTimeout,
    '--worker-memory': flags.workerMemory,
  }
  refuseOneOf(
    ofWorkers,
    (flag) => `${flag} goes to osmosis worker: with --redis the server runs no rollouts.`,
  )
}

/** @throws OsmosisError with code `invalid_config` that says what is wrong with the first flag that is given */
export function refuseOneOf(
  flags: Readonly<Record<string, unknown>>,
  sentence: (flag: string) => string,
): void {
  const [given] = Object.entries(flags).filter(([, value]) => value !== undefined)
  if (given !== undefined) throw new OsmosisError('invalid_config', sentence(given[0]))
}
