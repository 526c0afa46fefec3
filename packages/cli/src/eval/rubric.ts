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
} from '../command/flags.ts'

/** Adds `eval rubric`. */
export function declareRubric(evals: Command) {
  const command = addPolicyFlags(evals.command('rubric'))
    .description('score answers of a file or a run by a rubric, with a model as the judge')
    .optionsGroup(groups.inputs)
    .option(
      '-d, --dataset <file>',
      'JSON Lines with an answer each: messages (the last text of the assistant), answer or solution_str',
    )
    .option(
      '--run <run>',
      'a run, named as for eval show, instead: the last text of its rollouts; a note with the tag pass or fail is a human verdict',
    )
    .option('--filter <query>', 'these rollouts of the run (default: those with a human verdict)')
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
      'compare with human verdicts: a key of the rows or of their metadata (pass or fail, true or false, a score), or a tag in their tags; of a run: the tag of notes that is a pass, while others fail',
    )
    .option(
      '--pass-threshold <score>',
      'minimum score that passes, for verdicts (default: that of the run, else the middle of the range)',
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
    .option(
      '--as <name>',
      'store the scores as a re-grading of the run, which eval view shows beside its notes',
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      example('osmosis eval rubric -d answers.jsonl -r @rubric.md --model openai/gpt-5-mini'),
    )
  addPythonName(command, '--data <file>', '--dataset')
  addPythonName(command, '-n, --number <count>', '--votes')
  return command
}

/** Flags of `osmosis eval rubric`. */
export type RubricFlags = FlagsOf<typeof declareRubric>
