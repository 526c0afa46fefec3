import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import path from 'node:path'

import { Command } from '@commander-js/extra-typings'
import { OsmosisError } from '@osmosis/core'
import { formatCount } from '@osmosis/eval/analysis'
import {
  estimateLearner,
  learnerProgramProblem,
  localLearnerIdentity,
  openLocalLearner,
  type LearnerFacts,
  type LearnerIdentity,
  type LearnerProcessOptions,
  type TrainingLogger,
} from '@osmosis/train'

import { fromWorkingFolder, resolvePath } from '../../command/command-context.ts'
import { readEnvironment } from '../../command/environment.ts'
import { invalid } from '../../command/wrong-use.ts'
import { writeLearnerFile } from '../../eval/models/learner-file.ts'
import { declareLocal, type TrainLocalFlags } from '../local.ts'
import { runTraining, type PlanFacts, type PlannedLearner } from './run-training.ts'
import { planTraining, type TrainingPlan } from './training-plan.ts'

const defaultModel = 'Qwen/Qwen3-0.6B'
/** Checkpoints that lie on the disk: the last three, the best, and the one that is being written. */
const checkpoints = 5

/**
 * Trains a model on this machine with the bundled learner. Resolves with the exit code.
 *
 * @throws OsmosisError, as {@link runTraining} does
 */
export async function trainLocalCommand(
  configFile: string,
  flags: TrainLocalFlags,
): Promise<number> {
  const { model = defaultModel, loraRank, maxLength, seed } = flags
  const plan = await planTraining(
    configFile,
    { ...flags, model },
    {
      kind: 'local',
      defaults: declareLocal(new Command()).opts(),
      learningRate: loraRank === 0 ? 1e-6 : 1e-4,
    },
  )
  if (seed !== undefined && (plan.options.maxStaleness ?? 0) > 0) {
    throw invalid(
      'With training.max_staleness the time that rollouts take decides which weights answer them, so --seed cannot repeat the training: remove one of the two.',
    )
  }
  const folder = resolvePath(model)
  const learner = {
    ...plan.settings.learner,
    model: existsSync(folder) ? folder : model,
    python: flags.python,
    device: flags.device,
    sampler: flags.sampler,
    loraRank,
    maxLength: plan.maxLength,
    exportsMerged: flags.export === 'merged',
    log: flags.log,
    seed,
    logFile: path.join(plan.options.folder, 'learner.log'),
  }
  return runTraining(plan, plannedLearner(plan, learner, maxLength))
}

/** @param maxLength - what the user asks for, and not the config */
function plannedLearner(
  plan: TrainingPlan,
  options: LearnerProcessOptions,
  maxLength: number | undefined,
): PlannedLearner {
  const { folder } = plan.options
  const { loraRank = 16, model } = options
  return {
    facts: [
      ['Model', model],
      ['Trained', loraRank > 0 ? `LoRA adapters of rank ${loraRank}` : 'all weights'],
      ...(options.log ?? []).map((name) => ['Figures in', loggerText(folder, name)] as const),
    ],
    problem: async () => learnerProgramProblem(options.python, readEnvironment()),
    async probe() {
      const facts = await estimateLearner(options)
      if (maxLength !== undefined && facts.maxLength < maxLength) {
        throw invalid(
          `--max-length ${maxLength} is more than the model takes: ${facts.maxLength} tokens. Lower it.`,
        )
      }
      assertSampled(plan, facts)
      await assertDiskSpace(folder, facts)
      let identity: LearnerIdentity | undefined
      return {
        facts: factLines(plan, facts),
        identity: async () => (identity = await localLearnerIdentity(options, facts)),
        async open(signal) {
          await writeLearnerFile(folder, options)
          const learner = await openLocalLearner({ ...options, signal }, identity)
          const { batch, conversations } = learner.facts
          return {
            learner,
            // Without a deadline those that wait lose nothing, and most are shorter than the longest.
            mostRollouts: plan.subject.agentTimeoutSeconds === null ? batch : conversations,
            died: learner.died,
            log: async (ended) => learner.log(folder, { ended }),
            howToUse: (exported) => howToServe(options, facts, exported),
          }
        },
      }
    },
  }
}

function howToServe(
  options: LearnerProcessOptions,
  facts: LearnerFacts,
  exported: string,
): string[] {
  const { model, loraRank, exportsMerged } = options
  const flags = servingFlags(facts)
  return loraRank === 0 || exportsMerged
    ? [`Model            ${exported}`, `Serve it         vllm serve ${exported}${flags}`]
    : [
        `Adapter          ${exported}`,
        `Serve it         vllm serve ${model} --enable-lora --lora-modules policy=${exported}${rankFlag(options)}${templateFlag(facts, exported)}${flags}`,
      ]
}

function factLines(plan: TrainingPlan, facts: LearnerFacts): PlanFacts {
  const { memory, weights, trainedWeights, dtype, device, sampler } = facts
  const free = memory.free === null ? '' : `, ${sizeText(memory.free)} free`
  return [
    ['Weights', `${formatCount(weights)} in ${dtype}, ${formatCount(trainedWeights)} trained`],
    ...(facts.maxLength < plan.maxLength
      ? [['Context', `${facts.maxLength} tokens: the model takes no more`] as const]
      : []),
    ...(facts.waits ? [['Sampling', waitingText] as const] : []),
    ['Device', sampler === 'vllm' ? `${device}, vLLM samples` : device],
    ['Memory', `${sizeText(memory.needed)} needed${free}`],
  ]
}

/** vLLM refuses temperatures above 2, and samples at 0.01 when it is asked for less. At 0 it takes the most likely token. */
const vllmTemperatures = [0.01, 2] as const

/** @throws OsmosisError with code `invalid_config` for a temperature at which vLLM would not sample */
function assertSampled(
  { sampling: { temperature } }: TrainingPlan,
  { sampler }: LearnerFacts,
): void {
  if (sampler !== 'vllm' || temperature === undefined || temperature === 0) return
  const [least, most] = vllmTemperatures
  if (temperature >= least && temperature <= most) return
  throw new OsmosisError(
    'invalid_config',
    `sampling.rollout_temperature is ${temperature}, and vLLM samples at 0 and from ${least} to ${most}. Change it, or train with --sampler torch.`,
  )
}

const waitingText =
  'answers that wait begin when all others have ended, because the caches of this model cannot be joined'

function loggerText(folder: string, name: TrainingLogger): string {
  return name === 'tensorboard'
    ? `tensorboard --logdir ${fromWorkingFolder(path.join(folder, name))}`
    : name
}

/** vLLM takes these ranks alone, and 16 without the flag. */
const loraRanks = [16, 32, 64, 128, 256, 320, 512]

function rankFlag({ loraRank = 16 }: LearnerProcessOptions): string {
  if (loraRank <= 16) return ''
  return ` --max-lora-rank ${loraRanks.find((rank) => rank >= loraRank) ?? loraRank}`
}

/** vLLM takes the template of the base model, and not that beside an adapter. */
function templateFlag(facts: LearnerFacts, exported: string): string {
  return facts.describesTools ? ` --chat-template ${exported}/chat_template.jinja` : ''
}

/** With another precision, or with the sampling defaults of the model's folder, vLLM gives other answers than the training saw. */
function servingFlags({ dtype, toolParser, reasoningParser }: LearnerFacts): string {
  return [
    ` --dtype ${dtype} --generation-config vllm`,
    toolParser && ` --enable-auto-tool-choice --tool-call-parser ${toolParser}`,
    reasoningParser && ` --reasoning-parser ${reasoningParser}`,
  ]
    .filter((flag) => flag !== null)
    .join('')
}

/** @throws OsmosisError with code `storage_error` when the checkpoints would not fit */
async function assertDiskSpace(folder: string, { trainedWeights }: LearnerFacts): Promise<void> {
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
