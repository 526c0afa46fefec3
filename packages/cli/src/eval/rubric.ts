import { Option, type Command } from 'commander'

import {
  countFrom,
  decimalNumber,
  addPolicyOptions,
  type PolicyFlags,
  addPythonName,
  positiveSeconds,
} from '../command/flags.ts'

/** Flags of `osmosis eval rubric`. */
export interface RubricFlags extends PolicyFlags {
  dataset: string
  rubric: string
  apiKey?: string
  votes: number
  scoreMin: number
  scoreMax: number
  agreeWith?: string
  passThreshold?: number
  maxInFlight: number
  /** Seconds. */
  timeout?: number
  output?: string
  json?: boolean
}

/** Adds `eval rubric`. */
export function addRubricCommand(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  if (evals === undefined) return
  const command = addPolicyOptions(evals.command('rubric'))
    .description('let a model score a file of answers by a rubric')
    .requiredOption(
      '-d, --dataset <file>',
      'JSON Lines with an answer each: messages (the last text of the assistant), answer or solution_str',
    )
    .requiredOption('-r, --rubric <text>', 'what earns which score; @<file> reads it from a file')
    .addOption(
      new Option(
        '--api-key <key>',
        'key of the endpoint or the provider; other users of this machine can see it, unlike that of --api-key-env',
      ).conflicts('apiKeyEnv'),
    )
    .option(
      '--votes <count>',
      'how often to ask for each answer; the median counts',
      countFrom(1),
      1,
    )
    .option('--score-min <number>', 'lowest score', decimalNumber, 0)
    .option('--score-max <number>', 'highest score', decimalNumber, 1)
    .option(
      '--agree-with <tag>',
      'compare with what people found: a key of the rows or of their metadata (pass or fail, true or false, a score), or a tag in their tags',
    )
    .option(
      '--pass-threshold <score>',
      'least score that passes, for --agree-with (default: the middle of the range)',
      decimalNumber,
    )
    .option('--max-in-flight <answers>', 'most answers at the same time', countFrom(1), 8)
    .option(
      '--timeout <seconds>',
      'time limit of one call of the judge (default: 120)',
      positiveSeconds,
    )
    .option('-o, --output <file>', 'write the JSON there as well')
    .option('--json', 'print JSON for programs')
  addPythonName(command, '--data <file>', '--dataset')
  addPythonName(command, '-n, --number <count>', '--votes').action(async (flags: RubricFlags) => {
    const { rubricCommand } = await import('./rubric/score-answers.ts')
    setExitCode(await rubricCommand(flags))
  })
}
