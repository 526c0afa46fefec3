import type { Command } from '@commander-js/extra-typings'

import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'

function declareDoctor(program: Command) {
  return program
    .command('doctor')
    .description('look for what is missing on this machine and in the workspace')
    .optionsGroup(groups.run)
    .option('--online', 'ask each model of osmosis.toml once, for 16 tokens')
    .option('--fix', 'create the folders of a workspace that are missing, then look')
    .optionsGroup(groups.output)
    .option('--json', 'print one JSON object')
    .addHelpText('after', example('osmosis doctor --online'))
}

/** Flags of `osmosis doctor`. */
export type DoctorFlags = FlagsOf<typeof declareDoctor>

/** Adds `doctor`. */
export function addDoctorCommand(program: Command, setExitCode: SetExitCode): void {
  declareDoctor(program).action(async (flags) => {
    const { doctorCommand } = await import('./run-checks.ts')
    setExitCode(await doctorCommand(flags))
  })
}
