import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import type { TrainingLogger } from '@osmosis/train'

import { example, groups, type FlagsOf } from '../command/flags.ts'
import { addTrainingFlags } from './training-flags.ts'

/** Adds `train local`. */
export function declareLocal(train: Command) {
  const command = train
    .command('local')
    .description('train a model on this machine, with the agent and grader of a training config')
    .argument('<config>', 'a config in configs/training/')
  return addTrainingFlags(command)
    .optionsGroup(groups.model)
    .option(
      '--model <folder or name>',
      'a folder with a model, or its name on the hub (default: Qwen/Qwen3-0.6B)',
    )
    .addOption(
      new Option('--device <device>', 'where the model runs')
        .choices(['auto', 'cpu', 'cuda', 'mps'] as const)
        .default('auto' as const),
    )
    .addOption(
      new Option(
        '--sampler <program>',
        'program that samples answers (auto: vLLM where it is installed and finds a GPU, else PyTorch)',
      )
        .choices(['auto', 'torch', 'vllm'] as const)
        .default('auto' as const),
    )
    .option(
      '--python <command>',
      'Python with torch, transformers and peft (default: uv installs them for the learner)',
    )
    .optionsGroup(groups.output)
    .addOption(
      new Option(
        '--export <form>',
        'whether the LoRA adapter is written by itself or merged into the model',
      )
        .choices(['adapter', 'merged'] as const)
        .default('adapter' as const),
    )
    .option(
      '--log <names>',
      'also show the figures in tensorboard, wandb, mlflow; names with commas between them',
      loggers,
    )
    .addHelpText(
      'after',
      example('osmosis train local configs/training/price-check.toml --model ./my-model'),
    )
}

const knownLoggers = ['tensorboard', 'wandb', 'mlflow'] as const

function loggers(
  value: string,
  earlier: readonly TrainingLogger[] = [],
): readonly TrainingLogger[] {
  const named = value.split(',').map((name) => {
    const known = knownLoggers.find((one) => one === name)
    if (known !== undefined) return known
    throw new InvalidArgumentError(`It must have some of ${knownLoggers.join(', ')}.`)
  })
  return [...earlier, ...named]
}

/** Flags of `osmosis train local`. */
export type TrainLocalFlags = FlagsOf<typeof declareLocal>
