// Writes the tables of commands and flags in docs/reference/flags.md from the commands themselves.
//
//   node scripts/flag-tables.ts           fail when they are out of date
//   node scripts/flag-tables.ts --update  rewrite them
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { createProgram } from '../packages/cli/src/program.ts'

type Command = ReturnType<typeof createProgram>
type Row = readonly [string, string]

const page = path.resolve(import.meta.dirname, '../docs/reference/flags.md')
const text = readFileSync(page, 'utf8')
const [, before, after] = /^([^]*<!-- flags -->\n)[^]*(<!-- end of flags -->[^]*)$/.exec(text) ?? []
if (before === undefined || after === undefined) throw new Error(`no place for flags in ${page}`)
const updated = [before, ...sections(createProgram(() => {})), after].join('\n')

if (process.argv.includes('--update')) writeFileSync(page, updated)
else if (updated !== text) {
  process.stderr.write(
    'The flags in docs/reference/flags.md are out of date: node scripts/flag-tables.ts --update\n',
  )
  process.exitCode = 1
}

/** A section for each command, after one for the flags that those of the platform share. */
function sections(program: Command): string[] {
  const commands = leaves(program)
  const onPlatform = commands.filter(({ command }) => flagsOf(command).has('--platform'))
  const shared = onPlatform
    .map(({ command }) => flagsOf(command))
    .reduce((some, flags) => new Map([...some].filter(([name]) => flags.has(name))))
  return [
    `## Commands of the platform\n\nAll of them take:\n\n${table([...shared.values()])}`,
    ...commands.map(({ name, command }) => {
      const flags = flagsOf(command)
      const isShared = onPlatform.some((other) => other.command === command)
      const own = [...flags].filter(([flag]) => !isShared || !shared.has(flag))
      const rows = [...argumentsOf(command), ...own.map(([, row]) => row)]
      const more = isShared ? ', with [the flags of the platform](#commands-of-the-platform)' : ''
      const title = `## \`${name}\`\n\n${sentence(command.description())}${more}.\n`
      return rows.length === 0 ? title : `${title}\n${table(rows)}`
    }),
  ]
}

function leaves(command: Command, name = command.name()): { name: string; command: Command }[] {
  const visible = command.createHelp().visibleCommands(command)
  const below = command.commands.filter((one) => visible.includes(one))
  if (below.length === 0) return [{ name, command }]
  return below.flatMap((one) => leaves(one, `${name} ${one.name()}`))
}

function argumentsOf({ registeredArguments }: Command): Row[] {
  return registeredArguments.map((argument) => {
    const name = argument.required ? `<${argument.name()}>` : `[${argument.name()}]`
    return [name, `${argument.description}${choices(argument.argChoices)}`]
  })
}

/** By the long name. */
function flagsOf(command: Command): Map<string, Row> {
  return new Map(
    command.options
      .filter(({ hidden }) => !hidden)
      .map((option) => {
        const { flags, description, argChoices, defaultValue, mandatory } = option
        const standard =
          typeof defaultValue === 'string' || typeof defaultValue === 'number'
            ? ` (default: ${defaultValue})`
            : ''
        const needed = mandatory ? '; required' : ''
        return [
          option.long ?? flags,
          [flags, description + choices(argChoices) + needed + standard],
        ]
      }),
  )
}

function choices(values: readonly string[] | undefined): string {
  return values === undefined ? '' : `: ${values.map((value) => `\`${value}\``).join(', ')}`
}

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** As the formatter would write it. */
function table(rows: readonly Row[]): string {
  const cells = rows.map(([name, meaning]) => [`\`${name}\``, escaped(meaning)] as const)
  const head = ['argument or flag', 'meaning'] as const
  const all = [head, ...cells]
  const width = (column: 0 | 1): number => Math.max(3, ...all.map((row) => row[column].length))
  const line = ([name, meaning]: Row): string =>
    `| ${name.padEnd(width(0))} | ${meaning.padEnd(width(1))} |\n`
  const rule = `| ${'-'.repeat(width(0))} | ${'-'.repeat(width(1))} |\n`
  return line(head) + rule + cells.map(line).join('')
}

/** Angle brackets would be read as HTML. */
function escaped(meaning: string): string {
  const name = /[\w:/@[]*<[^>]*>(?:[\w:/@[\]]|\.(?=[\d<])|\d|<[^>]*>)*/g
  return meaning.replaceAll(name, '`$&`').replaceAll('|', '\\|')
}
