import path from 'node:path'

import type { PolicyModel } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'

import { choosePolicy, type PolicyFlags } from '../../choose-policy.ts'
import type { EvalLoopFlags } from './eval-loop-flags.ts'

/** A model under evaluation, or the one it is compared with. */
export interface ComparedModel {
  readonly tag: 'primary' | 'baseline'
  readonly name: string
  readonly policy: PolicyModel
}

/** Who is evaluated. */
export interface ComparedModels {
  readonly primary: ComparedModel
  /** Undefined when there is nothing to compare with. */
  readonly baseline: ComparedModel | undefined
}

/**
 * Finds the model under evaluation, and the one it is compared with.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint`
 */
export async function chooseModels(
  flags: EvalLoopFlags,
  environment: NodeJS.ProcessEnv,
): Promise<ComparedModels> {
  const baselineFlags = toBaselineFlags(flags)
  const primary = { tag: 'primary', ...(await choosePolicy(flags, environment)) } as const
  if (baselineFlags === undefined) return { primary, baseline: undefined }
  assertDifferent(flags, baselineFlags)
  const baseline = { tag: 'baseline', ...(await choosePolicy(baselineFlags, environment)) } as const
  return { primary, baseline }
}

/** What the flags for the model would be, were the baseline the model; undefined without one. */
function toBaselineFlags(flags: EvalLoopFlags): PolicyFlags | undefined {
  const { baselinePolicy, baselineModel, baselineBaseUrl, baselineApiKeyEnv } = flags
  if (baselineModel === undefined) {
    if (baselineBaseUrl !== undefined) throw needsModel('--baseline-base-url')
    if (baselineApiKeyEnv !== undefined) throw needsModel('--baseline-api-key-env')
    return baselinePolicy === undefined ? undefined : { policy: baselinePolicy }
  }
  if (baselinePolicy !== undefined) {
    throw invalid('Pass either --baseline-policy or --baseline-model: there is one baseline.')
  }
  const baseUrl = baselineBaseUrl ?? flags.baseUrl
  if (baseUrl === undefined) {
    throw invalid('--baseline-model belongs to an endpoint: pass --baseline-base-url as well.')
  }
  // The key of one endpoint is not for another.
  const inherited = baselineBaseUrl === undefined ? flags.apiKeyEnv : undefined
  const apiKeyEnv = baselineApiKeyEnv ?? inherited
  return { baseUrl, model: baselineModel, ...(apiKeyEnv === undefined ? {} : { apiKeyEnv }) }
}

function assertDifferent(primary: PolicyFlags, baseline: PolicyFlags): void {
  const same =
    baseline.policy === undefined
      ? baseline.model === primary.model && addressOf(baseline) === addressOf(primary)
      : primary.policy !== undefined &&
        path.resolve(baseline.policy) === path.resolve(primary.policy)
  if (!same) return
  throw invalid(
    `The baseline ${baseline.policy ?? baseline.model} is the model under evaluation itself: name another one.`,
  )
}

/** The base URL in the one spelling that all spellings of it have in common. */
function addressOf({ baseUrl }: PolicyFlags): string | undefined {
  return baseUrl === undefined ? undefined : new URL(baseUrl).href.replace(/\/+$/, '')
}

function needsModel(flag: string): OsmosisError {
  return invalid(`${flag} needs --baseline-model.`)
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
