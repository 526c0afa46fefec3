import type { EventEmitter } from 'node:events'

import { Option, type Command } from 'commander'

/**
 * Lets a command take a flag under the name that it has in the Python command line as well, so that
 * scripts written for that one go on. Help does not show it.
 *
 * @param name - with its value, e.g. `--env <variable>`
 * @param flag - the long name it has here, e.g. `--from-env`
 */
export function addPythonName(command: Command, name: string, flag: string): Command {
  const option = new Option(name).hideHelp()
  const meant = command.options.find(({ long }) => long === flag)
  if (meant === undefined) throw new TypeError(`${command.name()} has no flag ${flag}.`)
  command.addOption(option)
  // A command emits what it parses, which its declarations leave out.
  const parsed = command as unknown as EventEmitter
  // It is read, checked and collected as the flag that is meant.
  parsed.on(`option:${option.name()}`, (value) => parsed.emit(`option:${meant.name()}`, value))
  return command
}
