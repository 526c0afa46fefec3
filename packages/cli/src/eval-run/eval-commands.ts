import type { Command } from 'commander'

import { countFrom, decimalNumber, endpointUrl, repeated } from '../flag-values.ts'
import { addPolicyOptions, type PolicyFlags } from '../policy-options.ts'

/** Flags of `osmosis eval run`. */
export interface EvalRunFlags extends PolicyFlags {
  /** An entrypoint, `<file>[:<export>]`, in place of a config. */
  module?: string
  /** The dataset of that. */
  dataset?: string
  rows?: string
  limit?: number
  offset?: number
  n?: number
  maxInFlight?: number
  passThreshold?: number
  /** `<file>:<export>` of each eval function. */
  evalFn?: readonly string[]
  baselinePolicy?: string
  baselineModel?: string
  baselineBaseUrl?: string
  baselineApiKeyEnv?: string
  /** Those of agent loops. */
  maxTurns?: number
  maxTokens?: number
  temperature?: number
  log?: string
  name?: string
  output?: string
  secretsFile?: string
}

/** Adds `eval run`. */
export function addEvalCommands(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.command('eval').description('evaluate agents')
  addPolicyOptions(evals.command('run'))
    .description('evaluate a workflow or an agent loop on this machine, with any model')
    .argument('[config]', 'an eval config, e.g. configs/eval/my-rollout.toml')
    .option('-m, --module <module>', 'an entrypoint in place of a config: <file>[:<export>]')
    .option('-d, --dataset <file>', 'the dataset with the rows, with --module')
    .option('--rows <list>', 'take these rows, counted from 0, e.g. 0-4,7')
    .option('--limit <rows>', 'take so many rows', countFrom(1))
    .option('--offset <rows>', 'leave out so many rows first', countFrom(0))
    .option('--n <attempts>', 'attempts at each row (default: n of the config, 1)', countFrom(1))
    .option(
      '--max-in-flight <rollouts>',
      'most rollouts at the same time (default: batch_size of the config, what the server takes)',
      countFrom(1),
    )
    .option(
      '--pass-threshold <score>',
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
    .option('--max-tokens <tokens>', 'most tokens of one answer (agent loops)', countFrom(1))
    .option('--temperature <number>', 'sampling temperature (agent loops)', decimalNumber)
    .option('--log <folder>', 'keep a trace of every rollout there (agent loops)')
    .option(
      '--secrets-file <file>',
      'take the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .option(
      '--name <name>',
      'name of the run (default: made from config or entrypoint, the time and the inputs)',
    )
    .option(
      '-o, --output <folder>',
      'folder that gets a folder for the run (default: .osmosis/evals in the workspace)',
    )
    .action(async (config: string | undefined, flags: EvalRunFlags) => {
      const { evalRunCommand } = await import('./eval-run-command.ts')
      setExitCode(await evalRunCommand(config, flags))
    })
  evals
    .command('loop', { hidden: true })
    .allowUnknownOption()
    .allowExcessArguments()
    .helpOption(false)
    .action(() => {
      process.stderr.write(
        'error: osmosis eval loop is osmosis eval run: write osmosis eval run -m <file>:<export> -d <dataset>, with --max-in-flight for --batch-size.\n',
      )
      setExitCode(1)
    })
}
