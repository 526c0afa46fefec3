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

function declareRun(evals: Command) {
  const command = addRowFlags(addPolicyFlags(evals.command('run')))
    .description('evaluate a workflow or an agent loop on this machine, with any model')
    .argument('[config]', 'an eval config, e.g. configs/eval/my-rollout.toml')
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'an entrypoint instead of a config: <file>[:<export>]')
    .option(
      '--server <url>',
      'run the rollouts on a rollout server that is already running, with its grader; instead of an entrypoint, or with a config for the dataset and time limits; its key is $OSMOSIS_ROLLOUT_SERVER_API_KEY',
      endpointUrl,
    )
    .option('-d, --dataset <file>', 'the dataset with the rows (default: that of the config)')
    .option(
      '--set <field=value>',
      'another value for a field of the config of the workflow, e.g. max_iterations=8; wins over [workflow] of the config; several values, e.g. max_iterations=4,8, make a run each and compare them; may be repeated',
      fieldValues,
    )
    .option('--rows <list>', 'only these rows, counted from 0, e.g. 0-4,7')
    .option('--limit <rows>', 'maximum number of rows', countFrom(1))
    .option('--seed <n>', 'decides what --sample takes (default: 0)', countFrom(0))
    .optionsGroup(groups.limits)
    .option('--n <attempts>', 'attempts at each row (default: n of the config, 1)', countFrom(1))
    .option(
      '--max-in-flight <rollouts>',
      'maximum number of concurrent rollouts, limited by the slots of the server (default: batch_size of the config, 16)',
      countFrom(1),
    )
    .optionsGroup(groups.workers)
    .option(
      '--workers <n>',
      'number of worker processes of this machine that run the workflow, or auto for one per core; useful for CPU-bound workflows (default: the queue of osmosis.toml, else the process of the server)',
      workerCount,
    )
    .optionsGroup(groups.server)
    .option(
      '--policy-host <host>',
      'name or address of this machine at which the policy listens for workers or servers on other machines (default: 127.0.0.1)',
    )
    .optionsGroup(groups.scoring)
    .option(
      '--eval-fn <function>',
      'eval function that gives a score in addition to the reward: <file>:<export>, e.g. rewards.ts:exact; may be repeated',
      repeated,
    )
    .optionsGroup(groups.model)
    .option(
      '--models <names>',
      'make a run with each of these models and compare them: names as for --model, or as for --policy, separated by commas',
    )
    .option(
      '--checkpoints <folder>',
      'make a run with each checkpoint of a training by osmosis train local and compare them: its folder, or that of one checkpoint',
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-turns <turns>',
      'maximum number of model answers in a rollout (agent loops)',
      countFrom(1),
    )
    .option(
      '--max-tokens <tokens>',
      'maximum number of tokens in one answer, overrides the value of the workflow',
      countFrom(1),
    )
    .option(
      '--temperature <number>',
      'sampling temperature, overrides the value of the workflow',
      decimalNumber,
    )
    .optionsGroup(groups.output)
    .option(
      '--junit <file>',
      'at the end, write the test results as JUnit XML for CI services, as eval export does; replaces the file',
    )
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.scoring)
    .option(
      '--min-pass-rate <fraction>',
      'exit with code 3 when a smaller fraction of the items passes, e.g. 0.8',
      share,
    )
    .optionsGroup(groups.limits)
    .option(
      '--fail-on-error <limit>',
      'stop after this number or fraction of failed rollouts, e.g. 50 or 0.1, or never (default: when the first 20 all fail in the same way)',
      failureLimit,
    )
    .optionsGroup(groups.run)
    .option(
      '--name <name>',
      'name of the run to resume or start (default: the newest unfinished run with the same inputs, else a new one)',
    )
    .option('--fresh', 'start a new run; an existing run of that name is renamed to <name>.1')
    .option(
      '--retry-failed [types]',
      'run failed items again, optionally of these types only, e.g. =timeout,worker_lost (default: of any type)',
    )
    .option('--break-lock', 'take over the run although another process seems to write to it')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <folder>',
      'folder of the runs; the run gets its own folder there (default: .osmosis/evals in the workspace)',
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-cost <usd>',
      'stop starting rollouts when the run has cost this much (US dollars); rollouts in flight still finish, and cost',
      dollars,
    )
    .optionsGroup(groups.scoring)
    .option('--no-grader', 'run even without a grader or an eval function')
    .optionsGroup(groups.run)
    .option(
      '--cache',
      'answer requests that an earlier run with this flag made, in the same attempt at a row, with the stored answers in .osmosis/cache; they cost nothing again',
    )
    .option('--dry-run', 'print the plan without starting a rollout')
    .optionsGroup(groups.output)
    .option('--details', 'end with every figure, failure and finding')
    .option('-q, --quiet', 'print errors and one line with the result, no plan, progress or report')
    .option('--json', 'print only the result on stdout, as one JSON document')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation before starting many rollouts')
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

/** Adds `eval run`. */
export function addEvalRunCommand(
  evals: Command,
  action: (config: string | undefined, flags: ParsedRunFlags) => Promise<void>,
): void {
  declareRun(evals).action(action)
}
