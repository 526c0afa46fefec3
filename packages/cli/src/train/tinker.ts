import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import { dollars, example, groups, type FlagsOf } from '../command/flags.ts'
import { addTrainingFlags } from './training-flags.ts'

/** Adds `train tinker`. */
export function declareTinker(train: Command) {
  const command = train
    .command('tinker')
    .description(
      'train a model on a service that speaks the Tinker API, with the key in TINKER_API_KEY',
    )
    .argument('<config>', 'a config in configs/training/')
  return addTrainingFlags(command)
    .optionsGroup(groups.model)
    .option(
      '--model <name>',
      'the base model, as the service names it (default: model_path of the config)',
    )
    .option('--url <url>', 'a service of your own (default: that of Thinking Machines)')
    .option(
      '--tokenizer <folder>',
      'folder with tokenizer and chat template of the model (default: what the service names, where that is a folder)',
    )
    .addOption(
      new Option(
        '--loss-reduction <kind>',
        'how the service adds up the losses of tokens; SkyRL on jax takes the mean of each sequence',
      )
        .choices(['sum', 'sequence_mean'] as const)
        .default('sum' as const),
    )
    .addOption(
      new Option('--dialect <name>', 'the service whose names the settings have')
        .choices(['tinker', 'open-rl'] as const)
        .default('tinker' as const),
    )
    .addOption(
      new Option(
        '--wire <form>',
        'form of samples and updates (default: protobuf at the default URL, json at others)',
      ).choices(['json', 'protobuf'] as const),
    )
    .option(
      '--prices <prompt,sampled,trained>',
      'US dollars for a million tokens of each kind; tokens are shown without them',
      prices,
    )
    .addHelpText(
      'after',
      example('osmosis train tinker configs/training/price-check.toml --tokenizer ./qwen3-8b'),
    )
}

/** Prices of a service. US dollars for a million tokens. */
export interface TinkerPrices {
  readonly prompt: number
  readonly sampled: number
  readonly trained: number
}

function prices(value: string): TinkerPrices {
  const [prompt, sampled, trained, ...more] = value.split(',').map(dollars)
  if (prompt === undefined || sampled === undefined || trained === undefined || more.length > 0) {
    throw new InvalidArgumentError('It must be three prices, such as 0.13,0.4,0.4.')
  }
  return { prompt, sampled, trained }
}

/** Flags of `osmosis train tinker`. */
export type TrainTinkerFlags = FlagsOf<typeof declareTinker>
