import type { Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  addPythonName,
  addQueueFlags,
  countFrom,
  countOrShare,
  decimalNumber,
  dollars,
  endpointUrl,
  example,
  groups,
  portNumber,
  repeated,
  share,
  workerCount,
  type FlagsOf,
  type SetExitCode,
} from '../command/flags.ts'

function declareRun(evals: Command) {
  const command = addPolicyFlags(evals.command('run'))
    .description('evaluate a workflow or an agent loop on this machine, with any model')
    .argument('[config]', 'an eval config, e.g. configs/eval/my-rollout.toml')
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'an entrypoint in place of a config: <file>[:<export>]')
    .option(
      '--server <url>',
      'run the rollouts on a rollout server that is up, whose grader rewards them; in place of an entrypoint, or with a config for its dataset and time limits',
      endpointUrl,
    )
    .option(
      '--server-api-key-env <name>',
      'environment variable with the key of that server (default: no key is sent)',
    )
    .option('-d, --dataset <file>', 'the dataset with the rows (default: that of the config)')
    .option('--rows <list>', 'take these rows, counted from 0, e.g. 0-4,7')
    .option('--limit <rows>', 'take so many rows', countFrom(1))
    .option('--offset <rows>', 'leave out so many rows first', countFrom(0))
    .optionsGroup(groups.limits)
    .option('--n <attempts>', 'attempts at each row (default: n of the config, 1)', countFrom(1))
    .option(
      '--max-in-flight <rollouts>',
      'most rollouts at the same time, never more than the server has slots (default: batch_size of the config, 16)',
      countFrom(1),
    )
    .optionsGroup(groups.workers)
    .option(
      '--workers <n>',
      'run a workflow in this many worker processes, or one for each core with auto; pays for one that computes (default: in the process of the server)',
      workerCount,
    )
    .optionsGroup(groups.server)
    .option(
      '--rollout-port <port>',
      'port of the server that runs the rollouts (default: any free one)',
      portNumber,
    )
  return addQueueFlags(command, 'run a workflow on the workers of a queue, over this Redis')
    .option('--no-redis', 'run it on this machine, whatever osmosis.toml says')
    .optionsGroup(groups.server)
    .option(
      '--policy-host <host>',
      'name or address of this machine on which its policy listens, and under which workers, or a server, on other machines reach it (default: 127.0.0.1)',
    )
    .optionsGroup(groups.scoring)
    .option(
      '--threshold <score>',
      'least reward or score that passes (default: pass_threshold of the config, 1)',
      decimalNumber,
    )
    .option(
      '--eval-fn <function>',
      'score by <file>:<export>, e.g. rewards.ts:exact, beside the reward; may be repeated',
      repeated,
    )
    .optionsGroup(groups.model)
    .option(
      '--baseline-policy <name or module>',
      'compare with a policy of osmosis.toml, or with a module that exports one',
    )
    .option('--baseline-model <name>', 'compare with this model of an endpoint')
    .option(
      '--baseline-base-url <url>',
      'endpoint of the baseline model (default: that of the model, with its key)',
      endpointUrl,
    )
    .option(
      '--baseline-api-key-env <name>',
      'environment variable with the key of the baseline endpoint',
    )
    .optionsGroup(groups.limits)
    .option('--max-turns <turns>', 'most answers of the policy (agent loops)', countFrom(1))
    .option(
      '--max-tokens <tokens>',
      'most tokens of one answer, in place of what a workflow asks for',
      countFrom(1),
    )
    .option(
      '--temperature <number>',
      'sampling temperature, in place of what a workflow asks for',
      decimalNumber,
    )
    .optionsGroup(groups.output)
    .option('--log <folder>', 'keep a trace of every rollout there (agent loops)')
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'take the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.scoring)
    .option(
      '--min-pass-rate <share>',
      'end with 3 when less than this share of the items has passed, e.g. 0.8',
      share,
    )
    .optionsGroup(groups.limits)
    .option(
      '--fail-on-error <n or share>',
      'start no more rollouts when so many have failed, or such a share of all, e.g. 50 or 0.1 (default: when the first 20 have all failed alike)',
      countOrShare,
    )
    .option('--no-fail-on-error', 'start all rollouts, however many fail')
    .optionsGroup(groups.run)
    .option(
      '--name <name>',
      'the run to go on with, or to start (default: the newest unfinished run of the same inputs, else a new one)',
    )
    .option('--fresh', 'start anew; a run of that name is renamed to <name>.1')
    .option(
      '--retry-failed [types]',
      'run items again that have failed, e.g. =timeout,worker_lost (default: of any type)',
    )
    .option('--break-lock', 'take the run from a process that seems to write to it')
    .option('--token-ids', 'keep token ids and logprobs of the answers that have them')
    .optionsGroup(groups.output)
    .option(
      '-o, --output <folder>',
      'folder that gets a folder for the run (default: .osmosis/evals in the workspace)',
    )
    .optionsGroup(groups.limits)
    .option(
      '--max-cost <usd>',
      'start no more rollouts when those of the run have cost so much (US dollars); those in flight still end, and cost',
      dollars,
    )
    .optionsGroup(groups.scoring)
    .option('--no-grader', 'run although there is neither a grader nor an eval function')
    .optionsGroup(groups.run)
    .option('--no-preflight', 'do not ask the models once before the run spends')
    .option('--dry-run', 'print the plan and start no rollout')
    .optionsGroup(groups.output)
    .option('--verbose', 'also print what the agent and its server print')
    .option('-q, --quiet', 'print errors and one line with the result, no plan, progress or report')
    .option('--json', 'print the result as one JSON document and nothing else on stdout')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'ask nothing before many rollouts are started')
    .addHelpText('after', example('osmosis eval run configs/eval/price-check.toml --limit 20'))
}

/** Flags of `osmosis eval run`. */
export type EvalRunFlags = FlagsOf<typeof declareRun>

/** Adds `eval run`. */
export function addEvalRunCommand(evals: Command, setExitCode: SetExitCode): void {
  const command = declareRun(evals)
  addPythonName(command, '--dataset-file <file>', '--dataset')
  command.action(async (config, flags) => {
    const { evalRunCommand } = await import('./run/run-evaluation.ts')
    setExitCode(await evalRunCommand(config, flags))
  })
}
