import { createProgram } from '../../packages/cli/src/program.ts'

type Command = ReturnType<typeof createProgram>

/** Whether the command of words behind `osmosis` takes a flag. */
export function takesFlag(words: readonly string[], flag: string): boolean {
  const [, command] =
    commandsOf(createProgram(() => {})).find(([name]) =>
      `${words.join(' ')} `.startsWith(`${name} `),
    ) ?? []
  return command?.options.some(({ long }) => long === flag) ?? false
}

/** What is wrong with the words behind `osmosis`, by its own parser; undefined for nothing. */
export async function misuse(words: readonly string[]): Promise<string | undefined> {
  const program = createProgram(() => {})
  let said: string | undefined
  for (const command of [program, ...withDescendants(program)]) {
    command.configureOutput({ writeErr: (text) => (said ??= text.trim()), writeOut: () => {} })
  }
  for (const [, command] of commandsOf(program)) command.action(() => {})
  try {
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    const { exitCode, message } = error as { exitCode?: number; message: string }
    return exitCode === 0 ? undefined : (said ?? message)
  }
  return undefined
}

/** Whether a command has these words as its name, or is called with the last of them. */
export function startsWithCommand([first = '', ...others]: readonly string[]): boolean {
  let command = child(
    createProgram(() => {}),
    first,
  )
  for (const word of others) {
    if (command === undefined || command.commands.length === 0) break
    command = child(command, word)
  }
  return command !== undefined
}

function child({ commands }: Command, name: string): Command | undefined {
  return commands.find((command) => command.name() === name)
}

/** The long names of all flags, of whatever command. */
export function flagNames(): string[] {
  const program = createProgram(() => {})
  return withDescendants(program).flatMap(({ options }) =>
    options.flatMap(({ long }) => long ?? []),
  )
}

/** The commands that do something, by their names. */
function commandsOf(command: Command, name = ''): [string, Command][] {
  if (command.commands.length === 0) return [[name, command]]
  return command.commands.flatMap((part) => commandsOf(part, `${name} ${part.name()}`.trim()))
}

function withDescendants(command: Command): Command[] {
  return command.commands.flatMap((part) => [part, ...withDescendants(part)])
}

/** The commands of a block of a document, without comments, line breaks and redirections. */
export function commandLines(text: string): string[] {
  return text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .map((line) =>
      line
        .replace(/(?:^|\s)#.*/, '')
        .replace(/^(?:[A-Z_]+=\S* )+/, '')
        .replace(/ > .*/, '')
        .trim(),
    )
    .filter(Boolean)
}
