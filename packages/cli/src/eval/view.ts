import { Option, type Command } from '@commander-js/extra-typings'

import { example, groups, portNumber, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval view`. */
export function declareView(evals: Command) {
  return evals
    .command('view')
    .description('read evaluation runs and trainings of this machine in a browser')
    .argument(
      '[run]',
      'a run, the beginning of its name, its folder, or latest; with @<grading>; or a training, <training>/<run> for one of its steps (default: the one that is running, or the list)',
    )
    .optionsGroup(groups.server)
    .option('--port <port>', 'port on 127.0.0.1 (default: any free port)', portNumber)
    .option('--no-open', 'print the link without opening a browser')
    .optionsGroup(groups.output)
    .option('--export <file>', 'write the run to one HTML file instead, e.g. report.html')
    .addOption(
      new Option('--transcripts <which>', 'transcripts in that file')
        .choices(['flagged', 'all', 'none'])
        .default('flagged'),
    )
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .addHelpText('after', example('osmosis eval view latest --export report.html'))
}

/** Flags of `osmosis eval view`. */
export type EvalViewFlags = FlagsOf<typeof declareView>
