import { Option, type Command } from 'commander'

import { countFrom } from '../flag-values.ts'
import type { PlatformFlags } from './platform-flags.ts'

/** Flags of lists. */
export interface ListFlags extends PlatformFlags {
  limit?: number
  offset?: number
  all?: boolean
}

/** Adds them. */
export function addListFlags(command: Command): Command {
  return command
    .option('--limit <items>', 'at most so many, up to 50 (default: 50)', countFrom(1, 50))
    .option('--offset <items>', 'leave out so many first', countFrom(0))
    .addOption(new Option('--all', 'every page').conflicts('limit'))
}

/** Flags of `logs`. */
export interface LogFlags extends PlatformFlags {
  limit?: number
  direction?: string
  cursor?: string
}

/** Adds them. */
export function addLogFlags(command: Command): Command {
  return command
    .option('--limit <lines>', 'at most so many, up to 200 (default: 50)', countFrom(1, 200))
    .addOption(
      new Option('--direction <direction>', 'where the cursor leads (default: older)').choices([
        'older',
        'newer',
      ]),
    )
    .option('--cursor <cursor>', 'where to go on, as printed behind the lines')
}
