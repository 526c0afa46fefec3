import { statfs } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { formatCount, formatDuration } from '@osmosis/eval'
import {
  estimateLearner,
  openLocalLearner,
  type LearnerFacts,
  type LearnerProcessOptions,
  type LocalLearner,
} from '@osmosis/train'

import { fromHere } from '../../command/surroundings.ts'
import type { TrainLocalFlags } from '../local.ts'
import { writeLearnerFile } from './learner-file.ts'
import { runTraining, type PlannedLearner } from './run-training.ts'
import type { TrainingPlan } from './training-plan.ts'

const defaultModel = 'Qwen/Qwen3-0.6B'
/** Checkpoints that lie on the disk: the last three, the best, and the one that is being written. */
const checkpoints = 5

/**
 * Trains a model on this machine with the bundled learner. Resolves with the exit code.
 *
 * @throws OsmosisError, as {@link runTraining} does
 */
export function trainLocalCommand(configFile: string, flags: TrainLocalFlags): Promise<number> {
  return runTraining(configFile, { ...flags, model: flags.model ?? defaultModel }, async (plan) => {
    const options = learnerOptions(plan, flags)
    const facts = await estimateLearner(options)
    await assertDiskSpace(plan, facts)
    return plannedLearner(plan.folder, options, facts, stepSeconds(plan, facts, flags.passes))
  })
}

function learnerOptions(plan: TrainingPlan, flags: TrainLocalFlags): LearnerProcessOptions {
  const { model = defaultModel, maxLength = plan.maxLength } = flags
  const folder = fromHere(model)
  return {
    model: existsSync(folder) ? folder : model,
    python: flags.python,
    device: flags.device,
    sampler: flags.sampler,
    loraRank: flags.loraRank,
    maxLength,
    batch: flags.batch,
    microBatchTokens: flags.microBatchTokens,
    seed: flags.seed,
    logFile: path.join(plan.folder, 'learner.log'),
  }
}

function plannedLearner(
  folder: string,
  options: LearnerProcessOptions,
  facts: LearnerFacts,
  seconds: number,
): PlannedLearner {
  const { memory, trainedWeights, weights, sampler } = facts
  const isLora = trainedWeights < weights
  let learner: LocalLearner | undefined
  return {
    facts: [
      [
        'Model',
        `${options.model}, ${formatCount(isLora ? weights - trainedWeights : weights)} weights, ${facts.dtype}`,
      ],
      [
        'Trained',
        isLora
          ? `${formatCount(trainedWeights)} weights of LoRA adapters`
          : `all ${formatCount(weights)} weights`,
      ],
      ['Device', sampler === 'vllm' ? `${facts.device}, vLLM samples` : facts.device],
      [
        'Memory',
        `${sizeText(memory.needed)} needed${memory.free === null ? '' : `, ${sizeText(memory.free)} free`}`,
      ],
      [
        'Time',
        `roughly ${formatDuration(seconds * 1000)} a step, if each conversation has ${formatCount(facts.maxLength)} tokens`,
      ],
    ],
    defaultLearningRate: isLora ? 1e-4 : 1e-6,
    async open(signal) {
      await writeLearnerFile(folder, options)
      learner = await openLocalLearner({ ...options, signal })
      return learner
    },
    died: () => learner?.died,
    howToUse: (exported) =>
      isLora
        ? [
            `Adapter          ${exported}`,
            `Serve it         vllm serve ${options.model} --enable-lora --lora-modules policy=${exported}${rankFlag(options)}${parserFlags(facts)}`,
          ]
        : [
            `Model            ${exported}`,
            `Serve it         vllm serve ${exported}${parserFlags(facts)}`,
          ],
  }
}

/** What models reach of the speed of a lone product of matrices. */
const efficiency = 0.3
/** Of sampling one token in each conversation of a batch, beside the arithmetic. Seconds. */
const tokenOverhead = 0.005

/** A rough estimate of the time of a step whose conversations are as long as they may be. Seconds. */
function stepSeconds(
  { rowsPerStep, attempts }: TrainingPlan,
  { weights, maxLength, flopsPerSecond }: LearnerFacts,
  passes = 1,
): number {
  const conversations = rowsPerStep * attempts
  // Two operations for each weight to sample a token or to check its logprob, six for each pass of an update.
  const operations = conversations * maxLength * weights * (4 + 6 * passes)
  return operations / (flopsPerSecond * efficiency) + maxLength * tokenOverhead
}

/** vLLM takes these ranks alone, and 16 without the flag. */
const loraRanks = [16, 32, 64, 128, 256, 320, 512]

function rankFlag({ loraRank = 16 }: LearnerProcessOptions): string {
  if (loraRank <= 16) return ''
  return ` --max-lora-rank ${loraRanks.find((rank) => rank >= loraRank) ?? loraRank}`
}

function parserFlags({ toolParser, reasoningParser }: LearnerFacts): string {
  return [
    toolParser && ` --enable-auto-tool-choice --tool-call-parser ${toolParser}`,
    reasoningParser && ` --reasoning-parser ${reasoningParser}`,
  ]
    .filter((flag) => flag !== null)
    .join('')
}

/** @throws OsmosisError with code `storage_error` when the checkpoints would not fit */
async function assertDiskSpace(
  { folder }: TrainingPlan,
  { trainedWeights }: LearnerFacts,
): Promise<void> {
  let existing = folder
  while (!existsSync(existing)) existing = path.dirname(existing)
  const { bavail, bsize } = await statfs(existing)
  // The weights in float32, with two averages of the optimizer.
  const needed = checkpoints * trainedWeights * 4 * 3
  const free = bavail * bsize
  if (free >= needed) return
  throw new OsmosisError(
    'storage_error',
    `The checkpoints of the training need ${sizeText(needed)} in ${folder}, and ${sizeText(free)} are free. Free some, or pass --output with a folder on another disk.`,
  )
}

function sizeText(bytes: number): string {
  const gigabytes = bytes / 1e9
  if (gigabytes < 1) return `${Math.max(1, Math.round(bytes / 1e6))} MB`
  return `${gigabytes < 10 ? gigabytes.toFixed(1) : Math.round(gigabytes)} GB`
}
