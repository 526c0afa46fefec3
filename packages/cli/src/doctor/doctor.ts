import type { Command } from '@commander-js/extra-typings'

import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'

function declareDoctor(program: Command) {
  return program
    .command('doctor')
    .description('check this machine and the workspace for problems')
    .optionsGroup(groups.run)
    .option('--online', 'also call each model of osmosis.toml once, for 16 tokens')
    .option('--fix', 'create missing folders of the workspace first')
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
