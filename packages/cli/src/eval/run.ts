import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  addPythonName,
  addRowFlags,
  countFrom,
  decimalNumber,
  dollars,
  endpointUrl,
  example,
  failureLimit,
  fieldValues,
  groups,
  repeated,
  share,
  workerCount,
  type FlagsOf,
} from '../command/flags.ts'

/** Adds `eval run`. */
export function declareRun(evals: Command) {
  const command = addRowFlags(addPolicyFlags(evals.command('run')))
    .description('evaluate a workflow or an agent loop on this machine, with any model')
    .argument('[config]', 'an eval config, e.g. configs/eval/my-rollout.toml')
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'an entrypoint instead of a config: <file>[:<export>]')
    .option(
      '--server <url>',
      'run the rollouts on this rollout server, with its grader and the key $OSMOSIS_ROLLOUT_SERVER_API_KEY',
      endpointUrl,
    )
    .option('-d, --dataset <file>', 'the dataset with the rows (default: that of the config)')
    .option(
      '--set <field=value>',
      'another value for a field of the config of the workflow, e.g. max_iterations=8; with several values, e.g. 4,8, there is a run for each, and the runs are compared; may be repeated',
      fieldValues,
    )
    .option('--rows <list>', 'only these rows, counted from 0, e.g. 0-4,7')
    .option('--limit <rows>', 'maximum number of rows', countFrom(1))
    .option('--seed <n>', 'decides which rows --sample draws (default: 0)', countFrom(0))
    .optionsGroup(groups.limits)
    .option('--n <attempts>', 'attempts at each row (default: n of the config, 1)', countFrom(1))
    .option(
      '--max-in-flight <rollouts>',
      'maximum number of concurrent rollouts (default: batch_size of the config, 16)',
      countFrom(1),
    )
    .optionsGroup(groups.limits)
    .option(
      '--workers <n>',
      'run the workflow in this many processes, or auto for one per core (default: on the queue of osmosis.toml, else in the process of the server)',
      workerCount,
    )
    .optionsGroup(groups.inputs)
    .option(
      '--policy-host <host>',
      'address of this machine under which servers or workers elsewhere reach the policy',
    )
    .optionsGroup(groups.scoring)
    .option(
      '--eval-fn <function>',
      'eval function that also gives a score, e.g. rewards.ts:exact; may be repeated',
      repeated,
    )
    .optionsGroup(groups.model)
    .option(
      '--models <names>',
      'names of models or policies, separated by commas; there is a run for each, and the runs are compared',
    )
    .option(
      '--checkpoints <folder>',
      'folder of a training on this machine; there is a run for each of its checkpoints, and the runs are compared',
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-turns <turns>',
      'maximum number of model answers in a rollout of an agent loop',
      countFrom(1),
    )
    .option(
      '--max-tokens <tokens>',
      "maximum tokens in one answer, instead of the workflow's",
      countFrom(1),
    )
    .option(
      '--temperature <number>',
      "sampling temperature, instead of the workflow's",
      decimalNumber,
    )
    .optionsGroup(groups.output)
    .option('--junit <file>', 'write the results as JUnit XML, for CI services')
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.scoring)
    .option('--min-pass-rate <fraction>', 'exit with code 3 when fewer items pass, e.g. 0.8', share)
    .optionsGroup(groups.limits)
    .option(
      '--fail-on-error <limit>',
      'stop after this number or fraction of failures, or never (default: when the first 20 are the same)',
      failureLimit,
    )
    .optionsGroup(groups.run)
    .option(
      '--name <name>',
      'name of the run to resume or start (default: the newest unfinished one with the same inputs)',
    )
    .option('--fresh', 'start a new run; an existing one is renamed')
    .option(
      '--retry-failed [types]',
      'run failed items again, e.g. =timeout,worker_lost (default: of any type)',
    )
    .optionsGroup(groups.output)
    .option('-o, --output <folder>', 'folder of the runs (default: .osmosis/evals)')
    .optionsGroup(groups.limits)
    .option('--max-cost <usd>', 'start no rollout after the run has cost this much', dollars)
    .optionsGroup(groups.scoring)
    .option('--no-grader', 'run even without a grader or an eval function')
    .optionsGroup(groups.run)
    .option('--dry-run', 'print the plan without starting a rollout')
    .optionsGroup(groups.output)
    .option('--details', 'end with every figure, failure and finding')
    .option('-q, --quiet', 'print errors and one line with the result only')
    .option('--json', 'print the result as one JSON document')
    .optionsGroup(groups.run)
    .option('-y, --yes', 'do not ask before starting many rollouts')
    .addHelpText('after', example('osmosis eval run configs/eval/price-check.toml --limit 20'))
  addPythonName(command, '--dataset-file <file>', '--dataset')
  // The Python command line compares two models in one run.
  for (const name of ['model', 'base-url', 'api-key']) {
    const option = new Option(`--baseline-${name} <value>`).hideHelp()
    command.addOption(option.argParser(refuseBaseline))
  }
  return command
}

/** Flags of `osmosis eval run`. */
export type ParsedRunFlags = FlagsOf<typeof declareRun>

/** Flags of one run. */
export type EvalRunFlags = Omit<ParsedRunFlags, 'set' | 'models'> & {
  readonly set?: Readonly<Record<string, unknown>> | undefined
}

function refuseBaseline(): never {
  throw new InvalidArgumentError(
    'To compare models, pass both as --models <name>,<name>, each a model or a policy of osmosis.toml.',
  )
}
