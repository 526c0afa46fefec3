import { readFileSync, existsSync } from 'node:fs'
import path from 'node:path'

import { isOsmosisError } from '@osmosis/core'
import { isJsonObject, parseJson } from '@osmosis/core/http'
import {
  gradedEvents,
  openRun,
  type RunFolder,
  type RunReader,
  type RunStore,
  defaultOutputRoot,
  findWorkspaceRoot,
  listRuns,
  listTrainings,
  trainingRuns,
  type ListedRun,
} from '@osmosis/eval'
import {
  compareRuns,
  parseRolloutName,
  RunTable,
  toRunDocument,
  type ItemEvent,
} from '@osmosis/eval/analysis'

import { resolvePath, fromWorkingFolder, workingFolder } from '../../command/command-context.ts'
import { printMessage } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import { findTrainingRun, trainingsRoot } from '../training/find-training.ts'

/** The progress of a run. */
export interface ShownRunState {
  /** `running` while a process holds the lock of the run. */
  readonly status: 'running' | 'finished' | 'incomplete'
  /** Ended items, and their planned number. */
  readonly done: number
  readonly total: number
  /** Why it is incomplete; null when that is not known. */
  readonly reason: string | null
  /** How long processes worked on it. Milliseconds; 0 when that is not known. */
  readonly durationMs: number
}

/** What a report needs of a run, from its folder or from the process that ran it. */
type RunFacts = Pick<RunReader, 'location' | 'name' | 'manifest' | 'events'>

/** The items of a run. */
export interface ShownItems {
  readonly reader: RunFacts
  /** The name in messages, with `@<grading>`. */
  readonly name: string
  /** Its name in commands. */
  readonly command: string
  readonly table: RunTable
  /** Its events, by row and attempt. */
  readonly events: readonly ItemEvent[]
}

/** A run, or one of its re-gradings, with its transcripts. */
export interface ShownRun extends ShownItems {
  readonly reader: RunReader
}

/** A run with its state, for its report. */
export interface ReportedRun {
  readonly state: ShownRunState
  readonly shown: ShownItems
  /** The arguments of `osmosis` that resume it. Default: those in its manifest. */
  readonly resumeArguments?: readonly string[]
  /** The name in commands of an earlier run of the config. */
  readonly earlier?: string | undefined
}

/** The run that this process has just ended, without reading its folder again: a large run does not fit in memory twice. */
export async function endedRun(
  { location, manifest, events }: Pick<RunStore, 'location' | 'manifest' | 'events'>,
  resumeArguments: readonly string[],
): Promise<ReportedRun> {
  const { name, ...run } = { location, manifest, events, name: path.basename(location) }
  const sorted = [...events.values()].toSorted(
    (a, b) => a.row_index - b.row_index || a.run_index - b.run_index,
  )
  const shown = {
    reader: { ...run, name },
    name,
    command: await commandName(location),
    table: new RunTable(toRunDocument(manifest, sorted)),
    events: sorted,
  }
  // The command prints the reason as an error on stderr.
  const state = { ...runState(shown.reader, false), reason: null }
  const earlier = await earlierRun(shown.reader, shown.table)
  return { state, shown, resumeArguments, earlier }
}

/** A run with its state. */
export function reportedRun(shown: ShownRun): ReportedRun {
  return { state: runState(shown.reader, shown.reader.writer() !== null), shown }
}

/**
 * Opens a run with everything that commands show of it.
 *
 * @throws OsmosisError with code `invalid_config` when there is no such re-grading, `damaged_run`
 */
export async function openShownRun({ location, variant }: FoundRun): Promise<ShownRun> {
  const reader = await openRun(location)
  if (variant !== undefined) await assertVariant(reader, variant)
  const { manifest, sortedEvents } = reader
  const events =
    variant === undefined
      ? sortedEvents
      : gradedEvents(manifest, sortedEvents, await reader.grades(variant))
  const isRunning = reader.writer() !== null
  const suffix = variant === undefined ? '' : `@${variant}`
  return {
    reader,
    name: `${reader.name}${suffix}`,
    command: `${await commandName(location)}${suffix}`,
    table: new RunTable(toRunDocument(manifest, events, await reader.notes(), isRunning)),
    events,
  }
}

/**
 * Checks that the run has a re-grading of this name.
 *
 * @throws OsmosisError with code `invalid_config`, with the names that exist
 */
export async function assertVariant(run: RunFolder, variant: string): Promise<void> {
  const known = await run.gradings()
  if (known.includes(variant)) return
  const others =
    known.length === 0
      ? 'it has no re-gradings'
      : `there are ${known.map((one) => `${run.name}@${one}`).join(', ')}`
  throw invalid(`There is no ${run.name}@${variant}: ${others}.`)
}

/**
 * The state of a run: its progress is in the journal, the reason why it stopped in `progress.json`.
 *
 * @param isRunning - whether a process writes to it
 */
export function runState(
  { manifest, location, events }: RunFacts,
  isRunning: boolean,
): ShownRunState {
  const total = manifest.rows.length * manifest.n
  const done = events.size
  const progress = readProgress(location)
  const status = isRunning ? 'running' : done < total ? 'incomplete' : 'finished'
  const reason = progress['incomplete_reason']
  return {
    status,
    done,
    total,
    reason: status === 'incomplete' && typeof reason === 'string' ? reason : null,
    durationMs: Number(progress['duration_ms']) || 0,
  }
}

function readProgress(location: string): Readonly<Record<string, unknown>> {
  const file = path.join(location, 'progress.json')
  // A run that was killed early has none, or a part of it.
  const read = existsSync(file) ? parseJson(readFileSync(file, 'utf8')) : undefined
  return isJsonObject(read) ? read : {}
}

/** The location of a run that a command names. */
export interface FoundRun {
  /** The folder; absolute. */
  readonly location: string
  /** The name of a re-grading; undefined for the run itself. */
  readonly variant: string | undefined
}

/** The folder of the runs: that of the flag, else of the workspace. Absolute. */
export async function runsRoot(output: string | undefined): Promise<string> {
  if (output !== undefined) return resolvePath(output)
  // The search starts in the folder of this file name.
  return defaultOutputRoot((await findWorkspaceRoot(resolvePath('file'))) ?? workingFolder())
}

/**
 * Finds a run by its name, the beginning of its name, its folder, `<training>/<run>`, or `latest` for the newest; each
 * may be followed by `@<grading>`.
 *
 * @throws OsmosisError with code `invalid_config` when no run matches, or several do
 */
export async function findRun(name: string, root: string): Promise<FoundRun> {
  const at = name.lastIndexOf('@')
  const [own, variant] = at === -1 ? [name, undefined] : [name.slice(0, at), name.slice(at + 1)]
  const folder = resolvePath(own)
  if (own !== '' && existsSync(path.join(folder, 'manifest.json')))
    return { location: folder, variant }
  const ofTraining = await findTrainingRun(own, root)
  if (ofTraining !== undefined) return { location: ofTraining, variant }
  const runs = await listRuns(root)
  const isNewest = own === 'latest' || own === ''
  const { location } = await (isNewest ? newest(runs, root) : byName(runs, own, root))
  return { location, variant }
}

/** Of a folder with many runs only the newest are searched, because each is read. */
const searchedRuns = 20

/**
 * The last two runs that have ended at a row in common, the older first; the last two when no two have.
 *
 * @throws OsmosisError with code `invalid_config` when there are fewer
 */
export async function lastComparableRuns(root: string): Promise<readonly [ShownRun, ShownRun]> {
  const listed = (await listRuns(root)).filter(({ problem }) => problem === null)
  const opened: ShownRun[] = []
  for (const { location } of listed.slice(0, searchedRuns)) {
    const run = await unlessDamaged(openShownRun({ location, variant: undefined }))
    if (run === undefined) continue
    const newer = opened.find((one) => areComparable(run.table, one.table))
    if (newer !== undefined) return [run, newer]
    opened.push(run)
  }
  const [after, before] = opened
  if (after !== undefined && before !== undefined) return [before, after]
  throw invalid(
    `A comparison needs two runs, and ${root} has ${after === undefined ? 'none' : `only ${after.name}`}: osmosis eval run starts one.`,
  )
}

/** The run that is opened; undefined, with a warning, for one that cannot be read, where others do as well. */
export async function unlessDamaged<R>(opened: Promise<R>): Promise<R | undefined> {
  try {
    return await opened
  } catch (error) {
    if (!isOsmosisError(error) || error.code !== 'damaged_run') throw error
    printMessage(`warning: A run is left out, because it cannot be read: ${error.message}`)
    return undefined
  }
}

/** Whether both have ended at a row in common. */
export function areComparable(a: RunTable, b: RunTable): boolean {
  return compareRuns(a, b, { metric: 'pass' }).difference.rows > 0
}

/**
 * The name in commands of the last run before this one with its config and a row at which both have ended; undefined without
 * one, and without a config.
 */
async function earlierRun(run: RunFacts, table: RunTable): Promise<string | undefined> {
  const { created_at: start, provenance } = run.manifest
  if (provenance.config === null) return undefined
  const runs = await listRuns(path.dirname(run.location))
  const earlier = runs.filter(
    ({ manifest }) =>
      manifest !== null &&
      manifest.created_at < start &&
      manifest.provenance.config === provenance.config,
  )
  for (const { location } of earlier.slice(0, searchedRuns)) {
    const other = await openShownRun({ location, variant: undefined }).catch(() => undefined)
    if (other !== undefined && areComparable(other.table, table)) return other.command
  }
  return undefined
}

/** Whether a text can name a rollout, as `12` and `12.1` do. */
export function isItemName(text: string): boolean {
  return parseRolloutName(text) !== undefined
}

/** The name of a run in commands: its name where that is enough, else its folder. */
async function commandName(location: string): Promise<string> {
  const root = await runsRoot(undefined)
  const [folder, name] = [path.dirname(location), path.basename(location)]
  if (folder === root) return name
  const training = path.dirname(folder)
  const isOfTraining = path.dirname(training) === trainingsRoot(root)
  if (isOfTraining && trainingRuns(training) === folder) return `${path.basename(training)}/${name}`
  return fromWorkingFolder(location)
}

async function newest(runs: readonly ListedRun[], root: string): Promise<ListedRun> {
  const [run] = runs
  if (run !== undefined) return run
  throw invalid(
    `There are no runs in ${root}: osmosis eval run starts one, and --output names another folder.${await trainingsText(root)}`,
  )
}

async function byName(runs: readonly ListedRun[], name: string, root: string): Promise<ListedRun> {
  const exact = runs.find((run) => run.name === name)
  if (exact !== undefined) return exact
  const [one, ...others] = runs.filter((run) => run.name.startsWith(name))
  if (one !== undefined && others.length === 0) return one
  if (one !== undefined) {
    throw invalid(`The names of several runs begin with ${name}: ${namesOf([one, ...others])}.`)
  }
  const known =
    runs.length === 0
      ? `There is no run ${name} in ${root}, which has no runs: osmosis eval run starts one.`
      : `There is no run ${name} in ${root}: there are ${namesOf(runs)}.`
  throw invalid(`${known}${await trainingsText(root)}`)
}

/** The trainings beside the runs, for messages; empty when there are none. */
async function trainingsText(root: string): Promise<string> {
  const names = (await listTrainings(trainingsRoot(root))).map(({ name }) => name)
  return names.length === 0 ? '' : ` Trainings: ${names.join(', ')}.`
}

function namesOf(runs: readonly ListedRun[]): string {
  const names = runs.slice(0, 8).map((run) => run.name)
  const rest = runs.length - names.length
  return names.join(', ') + (rest > 0 ? ` and ${rest} more (osmosis eval runs)` : '')
}
