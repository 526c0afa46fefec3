import { invalid } from '../../command/exit-codes.ts'
import { readFileSync } from 'node:fs'
import path from 'node:path'

import { formatCount } from '@osmosis/eval'
import { trainingSettings } from '@osmosis/eval/analysis'
import {
  openTinkerLearner,
  tinkerLearnerIdentity,
  type TinkerLearner,
  type TinkerLearnerOptions,
  type TinkerUsage,
} from '@osmosis/train'

import { resolvePath, hideSecrets } from '../../command/command-context.ts'
import { readEnvironment } from '../../command/environment.ts'
import type { TinkerPrices, TrainTinkerFlags } from '../tinker.ts'
import { runTraining, type PlannedLearner } from './run-training.ts'
import type { TrainingPlan } from './training-plan.ts'

const hostedUrl = 'https://tinker.thinkingmachines.dev/services/tinker-prod'
const keyVariable = 'TINKER_API_KEY'

/**
 * Trains a model on a service that speaks the Tinker API. Resolves with the exit code.
 *
 * @throws OsmosisError, as {@link runTraining} does; also with code `unauthorized`
 */
export function trainTinkerCommand(configFile: string, flags: TrainTinkerFlags): Promise<number> {
  const apiKey = readEnvironment()[keyVariable] || undefined
  hideSecrets({ [keyVariable]: apiKey })
  return runTraining('tinker', configFile, flags, (plan) => {
    if (apiKey === undefined && flags.url === undefined) {
      throw invalid(
        `${hostedUrl} needs a key: set ${keyVariable} in the environment or in .env, or pass --url with a service of your own.`,
      )
    }
    const { training } = plan.config
    const settings: Readonly<Record<string, { readonly of: string }>> = trainingSettings
    const local = Object.keys(training).find(
      (key) => settings[key]?.of === 'learner' || key === 'max_staleness',
    )
    if (local !== undefined) {
      throw invalid(`Only train local has training.${local}: remove it from the config.`)
    }
    const { kl = 0, importance_cap: cap } = training
    if (kl > 0 || cap !== undefined) {
      throw invalid(
        `A Tinker service has no ${kl > 0 ? 'penalty' : 'importance weights'}: remove training.${kl > 0 ? 'kl' : 'importance_cap'} from the config.`,
      )
    }
    return plannedLearner(plan, flags, learnerOptions(plan, flags, apiKey))
  })
}

function learnerOptions(
  plan: TrainingPlan,
  flags: TrainTinkerFlags,
  apiKey: string | undefined,
): TinkerLearnerOptions {
  const { url, tokenizer, wire = url === undefined ? 'protobuf' : 'json' } = flags
  return {
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
}

function plannedLearner(
  plan: TrainingPlan,
  flags: TrainTinkerFlags,
  options: TinkerLearnerOptions,
): PlannedLearner {
  let learner: TinkerLearner | undefined
  return {
    facts: [
      ['Model', options.baseModel],
      ['Service', options.url],
      ['At most', usageText(mostUsage(plan), flags.prices)],
    ],
    defaultLearningRate: 1e-4,
    identity: async () => tinkerLearnerIdentity(options),
    async open(signal) {
      learner = await openTinkerLearner({ ...options, signal })
      return learner
    },
    died: () => learner?.lost,
    spent: () => (learner === undefined ? '' : usageText(learner.usage, flags.prices)),
    howToUse: (folder) => {
      const text = readFileSync(path.join(folder, 'tinker.json'), 'utf8')
      const { path: weights } = JSON.parse(text) as { path: string }
      return [
        `Weights          ${weights}`,
        ...(learner === undefined
          ? []
          : [`Used             ${usageText(learner.usage, flags.prices)}`]),
      ]
    },
  }
}

/** The tokens of a training whose rollouts all call the model once and use all that a conversation may have. */
function mostUsage(plan: TrainingPlan): TinkerUsage {
  const { rowsPerStep, attempts, heldOut, maxLength, sampling, config } = plan
  const steps = plan.steps + plan.warmSteps
  const trained = steps * rowsPerStep * attempts
  const interval = config.checkpoints.eval_interval
  const evaluations = 2 + (interval === undefined ? 0 : Math.floor(steps / interval))
  const rollouts = trained + evaluations * heldOut.length * heldOutAttempts
  const answer = Math.min(sampling['max_tokens'] ?? maxLength, maxLength)
  return {
    promptTokens: rollouts * (maxLength - answer),
    sampledTokens: rollouts * answer,
    trainedTokens: trained * (config.training.passes ?? 1) * maxLength,
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
