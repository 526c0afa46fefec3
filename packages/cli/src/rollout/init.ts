import { Option, type Command } from '@commander-js/extra-typings'
import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'
import { frameworkNames, packageManagers } from '@osmosis/create'

function declareInit(rollouts: Command) {
  return rollouts
    .command('init')
    .description('add a rollout to the workspace that runs at once, with its data and configs')
    .argument('<name>', 'lower-case letters, digits and hyphens, e.g. price-check')
    .optionsGroup(groups.inputs)
    .addOption(
      new Option(
        '--framework <name>',
        'what the agent is written with (default: asked in a terminal)',
      ).choices(frameworkNames),
    )
    .optionsGroup(groups.run)
    .addOption(
      new Option(
        '--package-manager <name>',
        'what installs packages that are missing (default: by the lockfile, else the one that runs this)',
      ).choices(packageManagers),
    )
    .option('--no-install', 'install nothing')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', `ask nothing: without --framework it is ${frameworkNames[0]}`)
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
