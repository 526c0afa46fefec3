import type { Command } from 'commander'

import {
  countFrom,
  countOrShare,
  decimalNumber,
  dollars,
  endpointUrl,
  portNumber,
  repeated,
  share,
  workerCount,
  addPolicyOptions,
  type PolicyFlags,
  addPythonName,
  addQueueOptions,
  type QueueFlags,
} from '../command/flags.ts'

/** Flags of `osmosis eval run`. */
export interface EvalRunFlags extends PolicyFlags, Omit<QueueFlags, 'redis'> {
  /** URL of the Redis of a queue; false for no queue, whatever the workspace says. */
  redis?: string | false
  /** Under which name or address workers of the queue reach this machine. */
  policyHost?: string
  /** URL of a rollout server that is up; it runs the rollouts. */
  server?: string
  /** The environment variable with its key. */
  serverApiKeyEnv?: string
  /** An entrypoint, `<file>[:<export>]`, in place of a config. */
  module?: string
  /** The dataset of that, or one in place of that of the config. */
  dataset?: string
  rows?: string
  limit?: number
  offset?: number
  n?: number
  maxInFlight?: number
  /** Processes that run user code; undefined for the server's own. */
  workers?: number | 'auto'
  /** Port of the server that runs the rollouts; undefined for any. */
  rolloutPort?: number
  threshold?: number
  /** The least share of passed items, 0 to 1. */
  minPassRate?: number
  /** Failures that stop the run, or their share; false for any number. */
  failOnError?: number | false
  /** `<file>:<export>` of each eval function. */
  evalFn?: readonly string[]
  baselinePolicy?: string
  baselineModel?: string
  baselineBaseUrl?: string
  baselineApiKeyEnv?: string
  /** Those of agent loops. */
  maxTurns?: number
  maxTokens?: number
  log?: string
  temperature?: number
  name?: string
  output?: string
  /** Starts anew what could go on. */
  fresh?: boolean
  /** Runs failed items again: all of them, or those of the listed error types. */
  retryFailed?: true | string
  breakLock?: boolean
  tokenIds?: boolean
  /** US dollars. */
  maxCost?: number
  preflight?: boolean
  /** False: rollouts need no score. */
  grader?: boolean
  dryRun?: boolean
  quiet?: boolean
  /** Also prints what the server and the agent print. */
  verbose?: boolean
  json?: boolean
  yes?: boolean
  secretsFile?: string
}

/** Adds `eval run`. */
export function addEvalCommands(program: Command, setExitCode: (code: number) => void): void {
  const evals = program
    .command('eval')
    .description('evaluate agents, on this machine or on the platform')
    .commandsGroup('On this machine:')
  const command = addPolicyOptions(evals.command('run'))
    .description('evaluate a workflow or an agent loop on this machine, with any model')
    .argument('[config]', 'an eval config, e.g. configs/eval/my-rollout.toml')
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
    .option('--n <attempts>', 'attempts at each row (default: n of the config, 1)', countFrom(1))
    .option(
      '--max-in-flight <rollouts>',
      'most rollouts at the same time, never more than the server has slots (default: batch_size of the config, 16)',
      countFrom(1),
    )
    .option(
      '--workers <n>',
      'run a workflow in this many worker processes, or one for each core with auto; pays for one that computes (default: in the process of the server)',
      workerCount,
    )
    .option(
      '--rollout-port <port>',
      'port of the server that runs the rollouts (default: any free one)',
      portNumber,
    )
  addQueueOptions(command, 'run a workflow on the workers of a queue, over this Redis')
    .option('--no-redis', 'run it on this machine, whatever osmosis.toml says')
    .option(
      '--policy-host <host>',
      'name or address of this machine on which its policy listens, and under which workers, or a server, on other machines reach it (default: 127.0.0.1)',
    )
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
    .option('--log <folder>', 'keep a trace of every rollout there (agent loops)')
    .option(
      '--secrets-file <file>',
      'take the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .option(
      '--min-pass-rate <share>',
      'end with 3 when less than this share of the items has passed, e.g. 0.8',
      share,
    )
    .option(
      '--fail-on-error <n or share>',
      'start no more rollouts when so many have failed, or such a share of all, e.g. 50 or 0.1 (default: when the first 20 have all failed alike)',
      countOrShare,
    )
    .option('--no-fail-on-error', 'start all rollouts, however many fail')
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
    .option(
      '-o, --output <folder>',
      'folder that gets a folder for the run (default: .osmosis/evals in the workspace)',
    )
    .option(
      '--max-cost <usd>',
      'start no more rollouts when those of the run have cost so much (US dollars); those in flight still end, and cost',
      dollars,
    )
    .option('--no-grader', 'run although there is neither a grader nor an eval function')
    .option('--no-preflight', 'do not ask the models once before the run spends')
    .option('--dry-run', 'print the plan and start no rollout')
    .option('--verbose', 'also print what the agent and its server print')
    .option('-q, --quiet', 'print errors and one line with the result, no plan, progress or report')
    .option('--json', 'print the result as one JSON document and nothing else on stdout')
    .option('-y, --yes', 'ask nothing before many rollouts are started')
  addPythonName(command, '--dataset-file <file>', '--dataset').action(
    async (config: string | undefined, flags: EvalRunFlags) => {
      const { evalRunCommand } = await import('./run/run-evaluation.ts')
      setExitCode(await evalRunCommand(config, flags))
    },
  )
}
