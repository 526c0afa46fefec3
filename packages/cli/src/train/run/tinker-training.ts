import { readFileSync } from 'node:fs'
import path from 'node:path'

import { Command } from '@commander-js/extra-typings'
import {
  formatCount,
  trainingSettings,
  type TrainingSetting,
  type TrainingSettings,
} from '@osmosis/eval/analysis'
import {
  openTinkerLearner,
  tinkerLearnerIdentity,
  type TinkerLearnerOptions,
  type TinkerUsage,
} from '@osmosis/train'

import { resolvePath, hideSecrets } from '../../command/command-context.ts'
import { readEnvironment } from '../../command/environment.ts'
import { invalid } from '../../command/wrong-use.ts'
import { declareTinker, type TinkerPrices, type TrainTinkerFlags } from '../tinker.ts'
import { runTraining, type PlannedLearner } from './run-training.ts'
import { planTraining, type TrainingPlan } from './training-plan.ts'

const hostedUrl = 'https://tinker.thinkingmachines.dev/services/tinker-prod'
const keyVariable = 'TINKER_API_KEY'

/**
 * Trains a model on a service that speaks the Tinker API. Resolves with the exit code.
 *
 * @throws OsmosisError, as {@link runTraining} does; also with code `unauthorized`
 */
export async function trainTinkerCommand(
  configFile: string,
  { prices, ...flags }: TrainTinkerFlags,
): Promise<number> {
  const apiKey = readEnvironment()[keyVariable] || undefined
  hideSecrets({ [keyVariable]: apiKey })
  const plan = await planTraining(configFile, flags, {
    kind: 'tinker',
    defaults: declareTinker(new Command()).opts(),
    learningRate: 1e-4,
    repeated: prices === undefined ? [] : ['--prices', Object.values(prices).join(',')],
  })
  const { url, tokenizer, wire = url === undefined ? 'protobuf' : 'json' } = flags
  if (apiKey === undefined && url === undefined) {
    throw invalid(
      `${hostedUrl} needs a key: set ${keyVariable} in the environment or in .env, or pass --url with a service of your own.`,
    )
  }
  refuseLocalSettings(plan.config.training)
  const learner = {
    url: url ?? hostedUrl,
    apiKey,
    wire,
    baseModel: flags.model ?? plan.config.experiment.modelPath,
    tokenizer: tokenizer === undefined ? undefined : resolvePath(tokenizer),
    loraRank: flags.loraRank,
    seed: flags.seed,
    maxLength: plan.maxLength,
    lossReduction: flags.lossReduction,
    dialect: flags.dialect,
  }
  return runTraining(plan, plannedLearner(plan, learner, prices))
}

/** @throws OsmosisError with code `invalid_config` for a key that a training here cannot follow, unless it has its default */
function refuseLocalSettings(training: TrainingSettings): void {
  for (const [key, setting] of Object.entries<TrainingSetting>(trainingSettings)) {
    const value = training[key as keyof TrainingSettings]
    if (setting.runsOn !== 'local' || value === undefined || value === setting.standard) continue
    throw invalid(
      setting.tinkerLacks === undefined
        ? `Only train local has training.${key}: remove it from the config.`
        : `A Tinker service has no ${setting.tinkerLacks}: remove training.${key} from the config.`,
    )
  }
}

function plannedLearner(
  plan: TrainingPlan,
  options: TinkerLearnerOptions,
  prices: TinkerPrices | undefined,
): PlannedLearner {
  return {
    facts: [
      ['Model', options.baseModel],
      ['Service', options.url],
      ['At most', usageText(mostUsage(plan), prices)],
    ],
    probe: async () => ({
      facts: [],
      identity: async () => tinkerLearnerIdentity(options),
      async open(signal: AbortSignal) {
        const learner = await openTinkerLearner({ ...options, signal })
        return {
          learner,
          died: learner.lost,
          spent: () => usageText(learner.usage, prices),
          howToUse: (folder) => {
            const text = readFileSync(path.join(folder, 'tinker.json'), 'utf8')
            const { path: weights } = JSON.parse(text) as { path: string }
            return [
              `Weights          ${weights}`,
              `Used             ${usageText(learner.usage, prices)}`,
            ]
          },
        }
      },
    }),
  }
}

/** The tokens of a training whose rollouts all call the model once and use all that a conversation may have. */
function mostUsage(plan: TrainingPlan): TinkerUsage {
  const { maxLength, sampling, options } = plan
  const { rowsPerStep, attempts, heldOut, evaluateEvery = 0, update } = options
  const steps = options.steps + plan.warmSteps
  const trained = steps * rowsPerStep * attempts
  const evaluations = 2 + (evaluateEvery === 0 ? 0 : Math.floor(steps / evaluateEvery))
  const rollouts = trained + evaluations * heldOut.length * heldOutAttempts
  const answer = Math.min(sampling.max_tokens, maxLength)
  return {
    promptTokens: rollouts * (maxLength - answer),
    sampledTokens: rollouts * answer,
    trainedTokens: trained * (update.epochs ?? 1) * maxLength,
  }
}

/** As `train` evaluates held-out rows. */
const heldOutAttempts = 4

function usageText(
  { promptTokens, sampledTokens, trainedTokens }: TinkerUsage,
  prices: TinkerPrices | undefined,
): string {
  const tokens = `${formatCount(promptTokens)} prompt, ${formatCount(sampledTokens)} sampled and ${formatCount(trainedTokens)} trained tokens`
  if (prices === undefined) return tokens
  const millionths =
    promptTokens * prices.prompt + sampledTokens * prices.sampled + trainedTokens * prices.trained
  return `$${(millionths / 1e6).toFixed(2)} for ${tokens}`
}
