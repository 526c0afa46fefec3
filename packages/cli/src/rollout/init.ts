import {
  frameworkNames,
  packageManagers,
  type Framework,
  type PackageManager,
} from '@osmosis/create'
import { Option, type Command } from 'commander'

/** Flags of `osmosis rollout init`. */
export interface InitFlags {
  framework?: Framework
  packageManager?: PackageManager
  /** False with `--no-install`. */
  install: boolean
  yes?: boolean
}

/** Adds `rollout init`. */
export function addInitCommand(rollouts: Command, setExitCode: (code: number) => void): void {
  rollouts
    .command('init')
    .description('add a rollout to the workspace that runs at once, with its data and configs')
    .argument('<name>', 'lower-case letters, digits and hyphens, e.g. price-check')
    .addOption(
      new Option(
        '--framework <name>',
        'what the agent is written with (default: asked in a terminal)',
      ).choices(frameworkNames),
    )
    .addOption(
      new Option(
        '--package-manager <name>',
        'what installs packages that are missing (default: by the lockfile, else the one that runs this)',
      ).choices(packageManagers),
    )
    .option('--no-install', 'install nothing')
    .option('-y, --yes', `ask nothing: without --framework it is ${frameworkNames[0]}`)
    .action(async (name: string, flags: InitFlags) => {
      const { initCommand } = await import('./create-rollout.ts')
      setExitCode(await initCommand(name, flags))
    })
}
