import { Option, type Command } from '@commander-js/extra-typings'
import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'
import { frameworkNames, packageManagers } from '@osmosis/create'

function declareInit(rollouts: Command) {
  return rollouts
    .command('init')
    .description('add a rollout to the workspace that is ready to run, with its data and configs')
    .argument('<name>', 'lower-case letters, digits and hyphens, e.g. price-check')
    .optionsGroup(groups.inputs)
    .addOption(
      new Option('--framework <name>', 'framework of the agent (default: a terminal asks)').choices(
        frameworkNames,
      ),
    )
    .optionsGroup(groups.run)
    .addOption(
      new Option(
        '--package-manager <name>',
        'package manager that installs missing packages (default: the one of the lockfile, else the one that runs this command)',
      ).choices(packageManagers),
    )
    .option('--no-install', 'do not install packages')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', `do not ask; the default of --framework is then ${frameworkNames[0]}`)
    .addHelpText('after', example('osmosis rollout init price-check --framework openai-agents'))
}

/** Flags of `osmosis rollout init`. */
export type InitFlags = FlagsOf<typeof declareInit>

/** Adds `rollout init`. */
export function addInitCommand(rollouts: Command, setExitCode: SetExitCode): void {
  declareInit(rollouts).action(async (name, flags) => {
    const { initCommand } = await import('./create-rollout.ts')
    setExitCode(await initCommand(name, flags))
  })
}
