import { createRequire } from 'node:module'

import { OsmosisError } from '@osmosis/core'
import * as sdk from 'ai'

import type { RolloutLanguageModel } from './language-model-types.ts'
import { RolloutModel, type RolloutModelSettings } from './policy-model.ts'

// No file of this package imports by name what older versions of the SDK lack: that would fail before this check, as a syntax
// error that names neither the version nor the remedy. Bundlers keep all of a namespace that is used as a value, so it is only
// read by names.
const { customProvider } = sdk
const registerTelemetry = supported(sdk.registerTelemetry)

/**
 * The policy, whichever that is at the time, as a model of the AI SDK. Pass it wherever a model is
 * expected: `generateText`, `streamText`, `Output`, `ToolLoopAgent`, `wrapLanguageModel`,
 * `prepareStep`. The rollout is found when the model is called, so one object may serve many
 * rollouts at once.
 *
 * Errors of the policy are thrown as `OsmosisError` and not retried: whatever was worth asking again
 * has been asked again. Outside of rollouts, calls of a model without a `fallback` fail with code
 * `no_rollout_context`.
 *
 * @param settings - a name alone, or settings
 */
export function rolloutModel(settings: string | RolloutModelSettings = {}): RolloutLanguageModel {
  return newRolloutModel(typeof settings === 'string' ? { name: settings } : settings)
}

/** The model that the calls of the SDK use. */
export function newRolloutModel(settings: RolloutModelSettings): RolloutModel {
  return new RolloutModel(settings, { customProvider, registerTelemetry })
}

/**
 * What only a supported version of the SDK has.
 *
 * @throws OsmosisError with code `invalid_config` when the installed version is not supported
 */
function supported<T>(exported: T | undefined): T {
  if (exported !== undefined) return exported
  const { version } = createRequire(import.meta.url)('ai/package.json') as { version: string }
  throw new OsmosisError(
    'invalid_config',
    `@osmosis/ai-sdk needs version 7 of the AI SDK, and ai ${version} is installed. Install it: npm install ai@7`,
  )
}
