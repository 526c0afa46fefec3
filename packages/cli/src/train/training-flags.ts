import type { Command } from '@commander-js/extra-typings'

import {
  adding,
  addRowFlags,
  countFrom,
  decimalNumber,
  groups,
  type FlagsOf,
} from '../command/flags.ts'

function trainingFlags(command: Command) {
  return addRowFlags(command)
    .optionsGroup(groups.inputs)
    .option('-d, --dataset <file>', 'the dataset with the rows (default: that of the config)')
    .option(
      '--held-out <file>',
      'dataset for the evaluations before and after the training (default: the rows whose split is validation, else a fifth of the rows, at most 50; these rows are not trained)',
    )
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.training)
    .option('--steps <n>', 'number of updates (default: from total_epochs)', countFrom(1))
    .option(
      '--rows-per-step <n>',
      'rows in a step (default: rollout_batch_size of the config, 16)',
      countFrom(1),
    )
    .option(
      '--n <attempts>',
      'attempts at each row (default: n_samples_per_prompt of the config, 8)',
      countFrom(2),
    )
    .option('--lr <rate>', 'learning rate (default: lr of the config)', decimalNumber)
    .option('--lora-rank <rank>', 'rank of the LoRA adapters (default: 16)', countFrom(0))
    .option(
      '--warm-start <reward>',
      'for a model that gets hardly any reward: begin with three steps of cross-entropy on the attempts that reach this reward',
      decimalNumber,
    )
    .option(
      '--without-signal <steps>',
      'stop when none of this many steps in a row had a signal; 0: never (default: 3)',
      countFrom(0),
    )
    .option(
      '--seed <n>',
      'trainings with the same seed are equal on one machine to the last bit: rows, their order, answers and weights (default: 0, where rounding may make answers differ)',
      countFrom(0),
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-in-flight <rollouts>',
      'maximum number of concurrent rollouts (default: all attempts of a step, but no more than are sampled at once)',
      countFrom(1),
    )
    .option('--max-length <tokens>', 'maximum number of tokens in a conversation', countFrom(16))
    .optionsGroup(groups.run)
    .option('--name <name>', 'name of the training (default: that of the config)')
    .option(
      '--fresh',
      'start a new training; an existing one is renamed to <name> and the next free number, such as <name>.1',
    )
    .option('--dry-run', 'print the plan without starting')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <folder>',
      'folder of the trainings (default: .osmosis/training in the workspace)',
    )
    .option('-q, --quiet', 'print errors and the comparison only')
}

/** Flags of all commands that train, and the model that some of them take. */
export type TrainingFlags = FlagsOf<typeof trainingFlags> & { readonly model?: string | undefined }

/** Adds the flags of all commands that train. */
export const addTrainingFlags = adding(trainingFlags)
