import { Option, type Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  addPythonName,
  countFrom,
  decimalNumber,
  example,
  groups,
  positiveSeconds,
  type FlagsOf,
  type SetExitCode,
} from '../command/flags.ts'

function declareRubric(evals: Command) {
  return addPolicyFlags(evals.command('rubric'))
    .description('score a file of answers by a rubric, with a model as the judge')
    .optionsGroup(groups.inputs)
    .requiredOption(
      '-d, --dataset <file>',
      'JSON Lines with an answer each: messages (the last text of the assistant), answer or solution_str',
    )
    .requiredOption(
      '-r, --rubric <text>',
      'instructions for the score; @<file> reads them from a file',
    )
    .optionsGroup(groups.model)
    .addOption(
      new Option(
        '--api-key <key>',
        'key of the endpoint or the provider; other users of this machine can see it, unlike that of --api-key-env',
      ).conflicts('apiKeyEnv'),
    )
    .optionsGroup(groups.scoring)
    .option(
      '--votes <count>',
      'number of judge calls for each answer; the median counts',
      countFrom(1),
      1,
    )
    .option('--score-min <number>', 'lowest score', decimalNumber, 0)
    .option('--score-max <number>', 'highest score', decimalNumber, 1)
    .option(
      '--agree-with <tag>',
      'compare with human verdicts: a key of the rows or of their metadata (pass or fail, true or false, a score), or a tag in their tags',
    )
    .option(
      '--pass-threshold <score>',
      'minimum score that passes, for --agree-with (default: the middle of the range)',
      decimalNumber,
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-in-flight <answers>',
      'maximum number of answers that are judged concurrently',
      countFrom(1),
      8,
    )
    .option(
      '--timeout <seconds>',
      'time limit of one call of the judge (default: 120)',
      positiveSeconds,
    )
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'also write the JSON to this file')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      example('osmosis eval rubric -d answers.jsonl -r @rubric.md --model openai/gpt-5-mini'),
    )
}

/** Flags of `osmosis eval rubric`. */
export type RubricFlags = FlagsOf<typeof declareRubric>

/** Adds `eval rubric`. */
export function addRubricCommand(evals: Command, setExitCode: SetExitCode): void {
  const command = declareRubric(evals)
  addPythonName(command, '--data <file>', '--dataset')
  addPythonName(command, '-n, --number <count>', '--votes')
  command.action(async (flags) => {
    const { rubricCommand } = await import('./rubric/score-answers.ts')
    setExitCode(await rubricCommand(flags))
  })
}
