import { OsmosisError } from '@osmosis/core'
import type { QueueConfig } from '@osmosis/eval'

import { redisUrl } from '../queue/redis-url.ts'
import { isUnreachable } from '../serve/registration.ts'
import type { EvalRunFlags } from './eval-commands.ts'

/** The queue over which an evaluation reaches its workers. */
export interface EvaluationQueue {
  /** What the server of the evaluation is told of it. */
  readonly serveArgs: readonly string[]
  /** Where the evaluation's policy listens, and under which name workers reach it. */
  readonly policyHost: string
}

/**
 * The queue that flags name, else the workspace; undefined when rollouts run on this machine.
 *
 * @throws OsmosisError with code `invalid_config` for flags that do not fit together, and for a policy
 * that workers could not reach
 */
export function evaluationQueue(
  flags: EvalRunFlags,
  configured: QueueConfig | null,
): EvaluationQueue | undefined {
  const queue = flags.redis === false ? null : configured
  const redis = flags.redis || queue?.redis
  if (redis === undefined) {
    for (const [flag, value] of Object.entries(queueFlags(flags, null))) {
      if (value !== undefined) throw invalid(`${flag} is about a queue: pass --redis as well.`)
    }
    return undefined
  }
  if (flags.workers !== undefined) {
    throw invalid('--workers goes to osmosis worker: over a queue the evaluation runs no rollouts.')
  }
  const { hostname } = redisUrl(redis, undefined)
  const { '--policy-host': named, ...others } = queueFlags(flags, queue)
  const serveArgs = Object.entries(others).flatMap(([flag, value]) =>
    value === undefined ? [] : value === true ? [flag] : [flag, value],
  )
  return {
    serveArgs: ['--redis', redis, ...serveArgs],
    policyHost: policyHost(named, hostname),
  }
}

/** @param queue - counts for what the flags leave open */
function queueFlags(
  flags: EvalRunFlags,
  queue: QueueConfig | null,
): Record<string, string | true | undefined> & { '--policy-host': string | undefined } {
  return {
    '--redis-prefix': flags.redisPrefix ?? queue?.prefix ?? undefined,
    '--queue-key-file': flags.queueKeyFile ?? queue?.keyFile ?? undefined,
    '--allow-plain-keys': flags.allowPlainKeys || undefined,
    '--code-version': flags.codeVersion,
    '--policy-host': flags.policyHost ?? queue?.policyHost ?? undefined,
  }
}

function policyHost(named: string | undefined, redisHost: string): string {
  if (named === '0.0.0.0' || named === '::') {
    throw invalid(`Nobody reaches the policy as ${named}: name an address of this machine.`)
  }
  if (named !== undefined) return named
  if (isUnreachable(redisHost.replaceAll(/[[\]]/g, ''))) return '127.0.0.1'
  throw invalid(
    'Workers on other machines cannot ask the policy of this evaluation, which listens on 127.0.0.1. Say with --policy-host under which name or address of this machine they reach it; --policy-host 127.0.0.1 when all of them run here.',
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
