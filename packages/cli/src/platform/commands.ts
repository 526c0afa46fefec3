import type { Command } from '@commander-js/extra-typings'

import { example, groups } from '../command/flags.ts'
import { addHostedDatasetCommands, addValidateDatasetCommand } from './commands/dataset.ts'
import {
  addPlatformFlags,
  onPlatform,
  platformCommand,
  type ProgramSettings,
} from './commands/platform-flags.ts'
import { addHostedEvalCommands, addHostedRunCommands } from './commands/runs.ts'
import { addSecretCommands } from './commands/secret.ts'

/**
 * Adds `platform` with its commands, and the same commands as the platform's guides and its Python command spell them. Help
 * lists only three of these, `dataset validate`, `eval submit` and `train submit`.
 *
 * @param topics - of the program; they have commands of this machine, too
 * @returns what help does not list
 */
export function addPlatformCommands(
  program: Command,
  { datasets, evals, train }: Readonly<Record<'datasets' | 'evals' | 'train', Command>>,
  settings: ProgramSettings,
): ReadonlySet<unknown> {
  acceptPlatformFlags(program)
  addValidateDatasetCommand(datasets, settings)
  const platform = program
    .command('platform')
    .description('the hosted platform: login, datasets, secrets and runs')
  addLoginCommands(platform, settings)
  addHostedDatasetCommands(
    platform.command('dataset').description('datasets of the workspace'),
    settings,
  )
  addSecretCommands(platform.command('secret').description('secrets of runs'), settings)
  addHostedEvalCommands(platform.command('eval').description('evaluation runs'), settings)
  addHostedRunCommands(platform.command('train').description('training runs'), 'train', settings)

  const topics = [program, datasets, evals, train]
  const listed = new Set<unknown>(topics.flatMap(({ commands }) => [...commands]))
  addLoginCommands(program, settings)
  addLoginCommands(program.command('auth'), settings)
  addSecretCommands(program.command('secret'), settings)
  addHostedDatasetCommands(datasets, settings)
  addHostedEvalCommands(evals.commandsGroup('On the platform:'), settings)
  addHostedRunCommands(train, 'train', settings)
  const added = topics.flatMap(({ commands }) => [...commands])
  return new Set<unknown>(
    added.filter((command) => !listed.has(command) && command.name() !== 'submit'),
  )
}

const loadLoginActions = async () => import('./actions/login.ts')

/** Adds `login`, `logout` and `whoami`. */
function addLoginCommands(auth: Command, settings: ProgramSettings): void {
  const login = platformCommand(auth, 'login')
    .description('log in with a browser, or with a token')
    .optionsGroup(groups.access)
    .option('--token <token>', 'a login token of the platform')
    .addHelpText('after', example('osmosis platform login'))
  onPlatform(login, settings, async (session, { token }) =>
    (await loadLoginActions()).logIn(session, token),
  )
  const logout = platformCommand(auth, 'logout')
    .description('log out and revoke the token')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis platform logout --yes'))
  onPlatform(logout, settings, async (session, { yes }) =>
    (await loadLoginActions()).logOut(session, yes),
  )
  const whoami = platformCommand(auth, 'whoami')
    .description('show who is logged in')
    .addHelpText('after', example('osmosis platform whoami'))
  onPlatform(whoami, settings, async (session) => (await loadLoginActions()).whoAmI(session))
}

/** The common flags of commands of the platform are also accepted before the command. */
function acceptPlatformFlags(program: Command): void {
  addPlatformFlags(program.enablePositionalOptions())
  program.hook('preAction', (_program, command) => {
    const isAsked = ['json', 'platform', 'envFile', 'workspace'].some(
      (name) => program.getOptionValue(name as never) !== undefined,
    )
    if (!isAsked || command.options.some(({ long }) => long === '--platform')) return
    program.error(
      `error: --json, --platform, --env-file and --workspace are flags of commands that use the platform, which ${command.name()} does not`,
      { exitCode: 2 },
    )
  })
}
