import type { EventEmitter } from 'node:events'

import {
  InvalidArgumentError,
  Option,
  type Command,
  type OptionValues,
} from '@commander-js/extra-typings'

/** The flags of a command, from the function that declares them. */
export type FlagsOf<Declare extends (...args: never[]) => { opts(): object }> = ReturnType<
  ReturnType<Declare>['opts']
>

/** Some flags of a command in a plan, each of which may be undefined. */
export type Given<Flags, Names extends keyof Flags> = {
  readonly [Name in Names]: Flags[Name] | undefined
}

/** Receives the exit code of a command. */
export type SetExitCode = (code: number) => void

/** Headings of flags in the help of commands. */
export const groups = {
  inputs: 'Inputs:',
  model: 'Model:',
  training: 'Training:',
  scoring: 'Scoring:',
  review: 'Review:',
  limits: 'Limits:',
  run: 'Run:',
  server: 'Server:',
  access: 'Access:',
  workers: 'Workers:',
  queue: 'Queue:',
  trainer: 'Trainer:',
  output: 'Output:',
  confirmation: 'Confirmation:',
  platform: 'Platform:',
} as const

/** The flag for the folder of evaluation runs. */
export const runsFolder = [
  '-o, --output <folder>',
  'folder of the runs (default: .osmosis/evals in the workspace)',
] as const

/** An example at the end of the help of a command. */
export function example(line: string): string {
  return `\nExample:\n  $ ${line}\n`
}

/** Reads a whole number from `least` to `most`. */
export function countFrom(least: number, most = Infinity): (value: string) => number {
  return (value) => {
    const isCount = /^\d+$/.test(value) && Number(value) >= least && Number(value) <= most
    if (isCount) return Number(value)
    const range = most === Infinity ? `${least} or more` : `from ${least} to ${most}`
    throw new InvalidArgumentError(`It must be a whole number, ${range}.`)
  }
}

/** Reads a number of worker processes. */
export function workerCount(value: string): number | 'auto' {
  if (value === 'auto') return value
  if (/^\d+$/.test(value) && Number(value) >= 1) return Number(value)
  throw new InvalidArgumentError('It must be a whole number of at least 1, or auto.')
}

/** Reads a number. */
export function decimalNumber(value: string): number {
  const number = Number(value)
  if (value.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}

function numberWhere(holds: (number: number) => boolean, what: string): (value: string) => number {
  return (value) => {
    const number = decimalNumber(value)
    if (holds(number)) return number
    throw new InvalidArgumentError(`It must be a number ${what}.`)
  }
}

/** Reads a fraction from 0 to 1. */
export const share = numberWhere((number) => number >= 0 && number <= 1, 'from 0 to 1')

/** Reads a count, a fraction below 1, or `never`. */
export function failureLimit(value: string): number | 'never' {
  if (value === 'never') return value
  const number = Number(value)
  if (number > 0 && (number < 1 || Number.isSafeInteger(number))) return number
  throw new InvalidArgumentError(
    'It must be a whole number of at least 1, a fraction below 1, or never.',
  )
}

/** Reads an amount of money. */
export const dollars = numberWhere((number) => number > 0, 'of US dollars above 0')

/** Reads a duration above 0. */
export const positiveSeconds = numberWhere((number) => number > 0, 'of seconds above 0')

const seconds = numberWhere((number) => number >= 0, 'of seconds, 0 or more')

/** Reads a port number; 0 means any free port. */
export function portNumber(value: string): number {
  const port = /^\d+$/.test(value) ? Number(value) : Number.NaN
  if (port <= 65_535) return port
  throw new InvalidArgumentError('It must be a port number from 0 to 65535.')
}

/** Reads the base URL of an endpoint. */
export function endpointUrl(value: string): string {
  if (/^https?:\/\/./i.test(value) && URL.canParse(value)) return value
  throw new InvalidArgumentError('It must be an http or https URL, e.g. http://127.0.0.1:8000/v1.')
}

/** Collects the values of a repeatable flag. */
export function repeated(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value]
}

/**
 * Collects `<field>=<value>` of a repeatable flag.
 *
 * @throws InvalidArgumentError when there is no field
 */
export function fieldValue(
  given: string,
  earlier: Readonly<Record<string, unknown>> | undefined,
): Readonly<Record<string, unknown>> {
  const [, field, value] = /^([\w.]+)=(.*)$/s.exec(given) ?? []
  if (field === undefined || value === undefined) {
    throw new InvalidArgumentError('It must be <field>=<value>, such as max_iterations=8.')
  }
  return { ...earlier, [field]: fromJson(value) }
}

/** As {@link fieldValue}, but with the values of a list such as `4,8`. */
export function fieldValues(
  given: string,
  earlier: Readonly<Record<string, readonly unknown[]>> | undefined,
): Readonly<Record<string, readonly unknown[]>> {
  const [[field, value] = ['', '']] = Object.entries(fieldValue(given, undefined))
  // A text other than JSON may be a list; "a,b" in quotes is one text.
  const written = given.slice(field.length + 1)
  const isList = value === written && written.includes(',')
  return { ...earlier, [field]: isList ? written.split(',').map(fromJson) : [value] }
}

/** A value that is written as JSON; any other as it is. */
function fromJson(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

/**
 * Also accepts a flag under its name in the Python command line, so that scripts written for that one
 * continue to work. Help does not show the name.
 *
 * @param name - with its value, e.g. `--env <variable>`
 * @param flag - the long name it has here, e.g. `--from-env`
 */
export function addPythonName(to: object, name: string, flag: string): void {
  const command = to as Command
  const option = new Option(name).hideHelp()
  const meant = command.options.find(({ long }) => long === flag)
  if (meant === undefined) throw new TypeError(`${command.name()} has no flag ${flag}.`)
  command.addOption(option)
  // A command is an event emitter, which its type declarations omit.
  const parsed = command as unknown as EventEmitter
  // The value is read, checked and collected as that of the other flag.
  parsed.on(`option:${option.name()}`, (value) => parsed.emit(`option:${meant.name()}`, value))
}

/** Makes a function that adds declared flags, with their types, to any command. */
export function adding<Extra extends unknown[], Added extends OptionValues>(
  declare: (command: Command, ...extra: Extra) => { opts(): Added },
): <Args extends unknown[], Flags extends OptionValues>(
  command: Command<Args, Flags>,
  ...extra: Extra
) => Command<Args, Flags & Added> {
  return (command, ...extra) =>
    // Commander adds the flags to the command itself.
    declare(command as unknown as Command, ...extra) as never
}

function policyFlags(command: Command, preset = 'default_policy of osmosis.toml') {
  return command
    .optionsGroup(groups.model)
    .option(
      '--policy <name or module>',
      `policy that answers the model calls: a name in osmosis.toml, or a module that exports one (default: ${preset})`,
    )
    .option(
      '--base-url <url>',
      'OpenAI-compatible endpoint that answers the model calls',
      endpointUrl,
    )
    .option(
      '--model <name>',
      'name of the model at the endpoint; without an endpoint, <provider>/<model>, e.g. openai/gpt-5-mini',
    )
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent; of a provider: its own variable)',
    )
}

function rowFlags(command: Command) {
  return command
    .optionsGroup(groups.inputs)
    .option(
      '--where <key=value>',
      'only rows with this value in their metadata or other columns, e.g. split=train; may be repeated: values of one key are alternatives',
      repeated,
    )
    .option('--sample <n>', 'number of rows to draw at random; --seed decides which', countFrom(1))
}

/** Flags that select rows by their content or at random. */
export type RowFlags = FlagsOf<typeof rowFlags>

/** Adds the flags that select rows by their content or at random. */
export const addRowFlags = adding(rowFlags)

/** Flags that select the policy, which answers the model calls. */
export type PolicyFlags = FlagsOf<typeof policyFlags>

/**
 * Adds the flags that select the policy.
 *
 * @param preset - describes the default policy
 */
export const addPolicyFlags = adding(policyFlags)

/** Help text of `--redis`. @param use - what the command does with the queue */
export function redisHelp(use: string): string {
  return `${use}: redis://<host>:<port>, rediss:// for TLS, or redis+sentinel:// with the addresses of Sentinels and the name by which they know the primary. Put the password into $OSMOSIS_REDIS_PASSWORD, because other users of this machine see command lines`
}

function logFlags(command: Command) {
  return command
    .optionsGroup(groups.output)
    .addOption(
      new Option('--log-level <level>', 'lowest level that is logged')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
}

/** Flags of the log. */
export type LogFlags = FlagsOf<typeof logFlags>

/** Adds the flags of the log. */
export const addLogFlags = adding(logFlags)

function egressFlags(command: Command, what: string) {
  return command
    .optionsGroup(groups.access)
    .option(
      '--allow-host <host>',
      `allow ${what} only to this host: a name, *.<domain>, an address or a subnet, with an optional port; may be repeated (default: every host)`,
      repeated,
    )
    .option(
      '--no-private-hosts',
      'do not connect to loopback and private addresses, except those that --allow-host names',
    )
}

/** Flags that limit where rollouts connect to. */
type EgressFlags = FlagsOf<typeof egressFlags>

/** @param what - names the connections that are limited */
export const addEgressFlags = adding(egressFlags)

function workerFlags(command: Command, whose: string) {
  return command
    .optionsGroup(groups.workers)
    .option(
      '--workers <n>',
      `number of worker processes that run workflows, or auto for one per core (default: they run in the process of the ${whose})`,
      workerCount,
    )
    .option(
      '--drain-timeout <seconds>',
      `time that running rollouts have to finish when the ${whose} shuts down (default: 30)`,
      seconds,
    )
    .option(
      '--stall-timeout <seconds>',
      'stop a worker process whose event loop is blocked for longer than this (default: 30)',
      positiveSeconds,
    )
    .option(
      '--worker-memory <MiB>',
      'heap size of a worker process (default: an equal part of the memory of the machine)',
      countFrom(32),
    )
    .optionsGroup(groups.output)
    .option(
      '--record <folder>',
      'store all rollouts by version of the policy, as a training that osmosis eval view <folder> opens; one process for each folder',
    )
}

/** Flags of the processes that run rollouts. */
type WorkerProcessFlags = FlagsOf<typeof workerFlags>

/** @param whose - the process that runs workflows without these flags */
export const addWorkerFlags = adding(workerFlags)

/** Flags of every command that executes rollouts. */
export type ProcessFlags = LogFlags & EgressFlags & WorkerProcessFlags

/**
 * Flags as a command line has them.
 *
 * @param flags - by their names in camelCase
 * @param omitted - names of those that are left out
 * @param defaults - values that are left out
 */
export function flagArguments(
  flags: object,
  omitted: ReadonlySet<string>,
  defaults: object,
): string[] {
  const usual = new Map<string, unknown>(Object.entries(defaults))
  return Object.entries(flags)
    .filter(([flag, value]) => !omitted.has(flag) && usual.get(flag) !== value)
    .flatMap(([flag, value]) => {
      const option = flag.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
      return argumentsOf(option, value)
    })
}

function argumentsOf(option: string, value: unknown): string[] {
  if (value === true) return [`--${option}`]
  if (value === false) return [`--no-${option}`]
  if (Array.isArray(value)) return value.flatMap((one) => argumentsOf(option, one))
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([field, own]) => [
      `--${option}`,
      `${field}=${JSON.stringify(own)}`,
    ])
  }
  const text = String(value)
  return [`--${option}`, option.endsWith('url') ? withoutCredentials(text) : text]
}

/**
 * An address without user info and fragment, and without the values of its query but for that of a version: manifests are shared
 * together with results. Whoever repeats the command sees which values to write again.
 */
function withoutCredentials(address: string): string {
  const url = new URL(address)
  const names = [...url.searchParams.keys()].filter((name) => !/version$/i.test(name))
  if (`${url.username}${url.password}${url.hash}` === '' && names.length === 0) return address
  url.username = url.password = url.hash = ''
  for (const name of names) url.searchParams.set(name, 'redacted')
  return url.href.replaceAll('=redacted', '=[redacted]')
}
