import type { Command } from '@commander-js/extra-typings'

import { example, groups, repeated, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval audit`. */
export function declareAudit(evals: Command) {
  return evals
    .command('audit')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('check the passes of a run for reward hacking, and record what reviewers decide')
    .argument('[run]', 'a run, <run>@<grading>, or its folder (default: latest)')
    .optionsGroup(groups.review)
    .option(
      '--verdict <finding=verdict>',
      'record that a finding is earned, hacked or unsure, e.g. 12.1:no-tools=hacked, or all open ones of a check, e.g. no-tools=earned; may be repeated',
      repeated,
    )
    .option('--because <reason>', 'the reason of these verdicts')
    .option('--by <name>', 'the name of the reviewer (default: the user of this machine)')
    .optionsGroup(groups.output)
    .option('--fail-on-open', 'exit with code 3 while a finding has no verdict, e.g. in CI')
    .addHelpText(
      'after',
      example("osmosis eval audit latest --verdict 12.1:no-tools=hacked --because 'it guesses'"),
    )
}

/** Flags of `osmosis eval audit`. */
export type EvalAuditFlags = FlagsOf<typeof declareAudit>
