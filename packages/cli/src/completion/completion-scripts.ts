import type { CommandFlag, CommandPlace } from './command-places.ts'

type Script = (places: readonly CommandPlace[]) => string

/** For each shell, the script that completes `osmosis` in it. Files are offered where nothing else is. */
export const completionScripts: Readonly<Record<'bash' | 'zsh' | 'fish', Script>> = {
  bash,
  zsh,
  fish,
}

function bash(places: readonly CommandPlace[]): string {
  return `# Completes osmosis in bash. Made by: osmosis completion bash
_osmosis() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} at='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
${pathCase(places, '      ', 'at+=" ${COMP_WORDS[i]}"')}
    esac
  done
  case "$at $before" in
${valueCases(places, '    ', (choices) => `words=${quoted(choices.join(' '))}`)}
    *)
      case "$at" in
${places
  .map(({ at, commands, choices, flags }) =>
    [
      `        ${quoted(at)})`,
      `          if [[ $word == -* ]]; then words=${quoted(flagNames(flags).join(' '))}`,
      `          else words=${quoted([...names(commands), ...choices].join(' '))}; fi ;;`,
    ].join('\n'),
  )
  .join('\n')}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _osmosis osmosis
`
}

// In zsh `path` is the PATH, and words are counted from 1.
function zsh(places: readonly CommandPlace[]): string {
  return `#compdef osmosis
# Completes osmosis in zsh. Made by: osmosis completion zsh
_osmosis() {
  local at='' i
  local -a found kind
  for ((i = 2; i < CURRENT; i++)); do
    case "$at \${words[i]}" in
${pathCase(places, '      ', 'at+=" ${words[i]}"')}
    esac
  done
  case "$at \${words[CURRENT - 1]}" in
${valueCases(places, '    ', (choices) => (choices.length === 0 ? '_files; return' : `compadd -- ${choices.map(quoted).join(' ')}; return`))}
  esac
  case "$at" in
${places
  .map(({ at, commands, choices, flags }) => {
    const described = flags.flatMap((flag) =>
      flag.names.map((name) => zshItem(name, flag.description)),
    )
    const items = [
      ...commands.map(({ name, description }) => zshItem(name, description)),
      ...choices.map(quoted),
    ]
    return [
      `    ${quoted(at)})`,
      `      if [[ \${words[CURRENT]} == -* ]]; then kind=(-o) found=(${described.join(' ')})`,
      `      else found=(${items.join(' ')}); fi ;;`,
    ].join('\n')
  })
  .join('\n')}
  esac
  if (( $#found )); then _describe $kind osmosis found; else _files; fi
}
if [[ "\${funcstack[1]}" == _osmosis ]]; then _osmosis "$@"; else compdef _osmosis osmosis; fi
`
}

function fish(places: readonly CommandPlace[]): string {
  return `# Completes osmosis in fish. Made by: osmosis completion fish
function __osmosis_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case ${paths(places).map(fishQuoted).join(' ')}
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
${places.flatMap(fishLines).join('\n')}
`
}

function fishLines({ at, commands, choices, flags }: CommandPlace): string[] {
  const start = `complete -c osmosis -n ${fishQuoted(`__osmosis_at ${fishQuoted(at)}`)}`
  return [
    ...commands.map(
      ({ name, description }) => `${start} -f -a ${name} -d ${fishQuoted(oneLine(description))}`,
    ),
    ...choices.map((choice) => `${start} -f -a ${fishQuoted(choice)}`),
    ...flags.map((flag) => {
      const spelled = flag.names.map((name) =>
        name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
      )
      const value = flag.choices.length > 0 ? ` -x -a ${fishQuoted(flag.choices.join(' '))}` : ' -r'
      const described = fishQuoted(oneLine(flag.description))
      return `${start} ${spelled.join(' ')}${flag.takesValue ? value : ''} -d ${described}`
    }),
  ]
}

/** A case of bash and zsh that takes every path of commands. */
function pathCase(places: readonly CommandPlace[], indent: string, then: string): string {
  return `${indent}${paths(places).map(quoted).join(' | ')}) ${then} ;;`
}

/** Cases of bash and zsh for the word behind a flag that takes a value. */
function valueCases(
  places: readonly CommandPlace[],
  indent: string,
  then: (choices: readonly string[]) => string,
): string {
  return places
    .flatMap(({ at, flags }) =>
      flags
        .filter(({ takesValue }) => takesValue)
        .map(({ names: spelled, choices }) => {
          const patterns = spelled.map((name) => quoted(`${at} ${name}`))
          return `${indent}${patterns.join(' | ')}) ${then(choices)} ;;`
        }),
    )
    .join('\n')
}

function paths(places: readonly CommandPlace[]): readonly string[] {
  return places.map(({ at }) => at).filter((at) => at !== '')
}

function names(commands: CommandPlace['commands']): readonly string[] {
  return commands.map(({ name }) => name)
}

function flagNames(flags: readonly CommandFlag[]): readonly string[] {
  return flags.flatMap((flag) => flag.names)
}

function zshItem(name: string, description: string): string {
  return quoted(`${name}:${oneLine(description)}`)
}

/** A list has room for a line. */
function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ')
}

/** For bash and zsh. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
