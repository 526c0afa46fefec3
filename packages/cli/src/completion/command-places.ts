import type { Argument, Command, Option } from 'commander'

/** What can stand behind a command. */
export interface CommandPlace {
  /** The names of the command and those above it, a space before each: ` eval run`. */
  readonly at: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly flags: readonly CommandFlag[]
  /** What its arguments can be, where there is a choice. */
  readonly choices: readonly string[]
}

/** A flag and how it can be written. */
export interface CommandFlag {
  /** E.g. `-m` and `--module`. */
  readonly names: readonly string[]
  readonly description: string
  readonly takesValue: boolean
  /** What the value can be, where there is a choice. */
  readonly choices: readonly string[]
}

/** The places of a command line, from the top down; what is hidden from its help is left out. */
export function commandPlaces(command: Command, at = ''): readonly CommandPlace[] {
  const help = command.createHelp()
  const visible = help.visibleCommands(command)
  const place: CommandPlace = {
    at,
    commands: visible.map((one) => ({ name: one.name(), description: one.description() })),
    flags: help.visibleOptions(command).map(toFlag),
    choices: command.registeredArguments.flatMap(({ argChoices }: Argument) => argChoices ?? []),
  }
  const below = visible
    .filter((one) => command.commands.includes(one))
    .flatMap((one) => commandPlaces(one, `${at} ${one.name()}`))
  return [place, ...below]
}

function toFlag({ short, long, description, required, optional, argChoices }: Option): CommandFlag {
  return {
    names: [short, long].filter((name) => name !== undefined),
    description,
    takesValue: required || optional,
    choices: argChoices ?? [],
  }
}
