import { type Command, InvalidArgumentError, Option } from 'commander'

/** Flags of `osmosis eval runs`. */
export interface EvalRunsFlags {
  output?: string
  json?: boolean
}

/** Flags of `osmosis eval show`. */
export interface EvalShowFlags extends EvalRunsFlags {
  full?: boolean
  /** An attempt of the same row, or `<run>:<row>.<attempt>`; true for the one that shows best. */
  parting?: true | string
  filter?: string
  failed?: boolean
  sort?: string
}

/** Flags of `osmosis eval compare`. */
export interface EvalCompareFlags extends EvalRunsFlags {
  metric?: 'pass' | 'reward'
  /** A facet of the rows. */
  by?: string
  /** The loss that is allowed: points of the pass rate, or rewards; true for none. */
  failIfWorse?: true | number
  markdown?: boolean
}

const outputFlag = [
  '-o, --output <folder>',
  'folder of the runs (default: .osmosis/evals in the workspace)',
] as const

/** Adds `eval runs`, `eval show` and `eval compare` to `eval`. */
export function addEvalShowCommands(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  evals
    ?.command('runs')
    .description('list the evaluation runs of this machine')
    .option(...outputFlag)
    .option('--json', 'print one JSON document')
    .action(async (flags: EvalRunsFlags) => {
      const { evalRunsCommand } = await import('./eval-runs-command.ts')
      setExitCode(await evalRunsCommand(flags))
    })
  evals
    ?.command('show')
    .description('show the report of a run of this machine, its rollouts, or what was said in one')
    .argument(
      '[run]',
      'a run, as much of its name as is needed, <run>@baseline, <run>@<grading>, a folder, or latest (default)',
    )
    .argument(
      '[rollout]',
      'a row, counted from 0, or <row>.<attempt>, the attempt from 1, e.g. 12 or 12.1',
    )
    .option('--failed', 'list the rollouts that did not pass')
    .option('--filter <query>', "list rollouts, e.g. 'is:stuck tool:search reward<0.5'")
    .option('--sort <key>', 'sort that list, e.g. tokens; -tokens for the largest first')
    .option('--full', 'fold nothing')
    .option(
      '--parting [attempt]',
      'show where the rollout parts from another attempt at its row, or from <run>:<row>.<attempt> (default: one that ended otherwise)',
    )
    .option(...outputFlag)
    .option('--json', 'print one JSON document, transcripts in ATIF')
    .action(async (run: string | undefined, rollout: string | undefined, flags: EvalShowFlags) => {
      const { evalShowCommand } = await import('./eval-show-command.ts')
      setExitCode(await evalShowCommand(run, rollout, flags))
    })
  evals
    ?.command('compare')
    .description('compare two runs of this machine over the rows that both have')
    .argument('<before>', 'a run, named as for eval show; <run>@baseline and <run>@<grading>, too')
    .argument('<after>', 'another one')
    .addOption(
      new Option('--metric <metric>', 'what is compared')
        .choices(['pass', 'reward'])
        .default('pass'),
    )
    .option('--by <key>', 'compare by the values of a metadata key as well, e.g. task')
    .option(
      '--fail-if-worse [points]',
      'end with 3 when it is worse by more than so many points (of the reward with --metric reward), with 95 % confidence (default: 0)',
      allowedLoss,
    )
    .option('--markdown', 'print Markdown, e.g. for a pull request')
    .option(...outputFlag)
    .option('--json', 'print one JSON document')
    .action(async (before: string, after: string, flags: EvalCompareFlags) => {
      const { evalCompareCommand } = await import('./eval-compare-command.ts')
      setExitCode(await evalCompareCommand(before, after, flags))
    })
}

function allowedLoss(value: string): number {
  const loss = Number(value)
  if (value.trim() !== '' && loss >= 0 && loss < Infinity) return loss
  throw new InvalidArgumentError(
    'It must be a number, 0 or more: write --fail-if-worse=2, or the flag behind the runs.',
  )
}
