import type { Command } from 'commander'

/** Flags of `osmosis doctor`. */
export interface DoctorFlags {
  online?: boolean
  fix?: boolean
  json?: boolean
}

/** Adds `doctor`. */
export function addDoctorCommand(program: Command, setExitCode: (code: number) => void): void {
  program
    .command('doctor')
    .description('look for what is missing on this machine and in the workspace')
    .option('--online', 'ask each model of osmosis.toml once, for 16 tokens')
    .option('--fix', 'create the folders of a workspace that are missing, then look')
    .option('--json', 'print one JSON object')
    .action(async (flags: DoctorFlags) => {
      const { doctorCommand } = await import('./run-checks.ts')
      setExitCode(await doctorCommand(flags))
    })
}
