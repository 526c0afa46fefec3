import type { Command } from 'commander'

import { countFrom } from '../flag-values.ts'

/** Flags that say which trainer a worker takes rollouts from. */
export interface TrainerFlags {
  /** The gateway of Agent Lightning, as a URL. */
  agentLightning?: string
  /** How often a rollout is run again after an error of the endpoint. */
  retries?: number
  /** `mean`, `sum`, or the id of a sample. */
  reward?: string
  /** Module that reads the trainer's rows. */
  rows?: string
}

/** Adds the flags that say which trainer a worker takes rollouts from. */
export function addTrainerOptions(command: Command): Command {
  return command
    .option(
      '--agent-lightning <url>',
      'take rollouts from the gateway of Agent Lightning v1 there; its key is $OSMOSIS_TRAINER_KEY',
    )
    .option(
      '--retries <n>',
      'run a rollout of a trainer again so often after an error of its endpoint (default: 1)',
      countFrom(0),
    )
    .option(
      '--reward <rule>',
      'the one reward of a rollout with several samples: mean, sum, or the id of the sample whose reward it is (default: such a rollout fails)',
    )
    .option(
      '--rows <module>',
      'a module whose function rows turns a row of the trainer into { messages, label, metadata } (default: columns of the usual names)',
    )
}
