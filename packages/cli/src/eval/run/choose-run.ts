import { existsSync } from 'node:fs'
import path from 'node:path'

import type { OsmosisError } from '@osmosis/core'
import {
  assertRunName,
  changedInputs,
  generateRunName,
  itemKey,
  listRuns,
  openRun,
  takenRunNames,
  toRunRow,
  type InputGroup,
  type RunReader,
} from '@osmosis/eval'
import type { ItemEvent, RunInputs, RunManifest, RunRow } from '@osmosis/eval/analysis'

import { invalid } from '../../command/wrong-use.ts'
import type { KnownInputs } from '../../inputs/run-inputs.ts'
import type { EvalRunFlags } from '../run.ts'
import { unlessDamaged } from '../show/shown-run.ts'
import { selectsRows, type EvalRunPlan } from './evaluation-plan.ts'

/** The run that a command starts or resumes. */
export interface ChosenRun {
  readonly name: string
  /** Its folder; absolute. */
  readonly location: string
  /** The stored run; undefined for a new one. */
  readonly earlier: RunReader | undefined
  /** Whether an existing run of this name must be renamed first. */
  readonly archives: boolean
  /** The rows and attempts it will have. */
  readonly rows: readonly RunRow[]
  readonly n: number
  /** Whether an item that has ended runs again. */
  readonly runsAgain: (event: ItemEvent) => boolean
}

/** What the command line requests of a run. */
export interface WantedRun {
  readonly plan: EvalRunPlan
  readonly flags: EvalRunFlags
  readonly inputs: KnownInputs
}

/**
 * Finds the run to resume, or a name for a new one: the run of the given name, else the newest unfinished
 * run of this config with the same inputs to which no process writes. Writes nothing.
 *
 * @throws OsmosisError with code `invalid_config` for an invalid name, and for a run of that name with
 * other inputs; `damaged_run` for a run that cannot be read
 */
export async function chooseRun(wanted: WantedRun): Promise<ChosenRun> {
  const { plan, flags, inputs } = wanted
  const { name } = flags
  if (name === undefined) {
    const unfinished = flags.fresh ? undefined : await findUnfinished(wanted)
    if (unfinished !== undefined) return grownRun(unfinished, wanted)
    return newRun(generateRunName(plan.source, await takenRunNames(plan.outputRoot)), wanted)
  }
  assertRunName(name)
  const location = path.resolve(plan.outputRoot, name)
  if (!existsSync(location)) return newRun(name, wanted)
  if (flags.fresh) return { ...newRun(name, wanted), archives: true }
  const earlier = await openRun(location)
  const changed = changesTo(earlier.manifest, inputs)
  if (changed.length > 0) throw otherInputs(earlier.name, changed)
  return grownRun(earlier, wanted)
}

/** A warning when `--retry-failed` names error types that no failure has. */
export function unmatchedRetry(
  { earlier, runsAgain }: ChosenRun,
  { retryFailed }: EvalRunFlags,
): string | undefined {
  if (typeof retryFailed !== 'string') return undefined
  const failed = [...(earlier?.events.values() ?? [])].filter(({ status }) => status === 'failed')
  if (failed.length === 0 || failed.some(runsAgain)) return undefined
  const types = new Set(failed.map(({ error_type: type }) => type ?? 'without a type'))
  return `No rollout failed with ${retryFailed}: the failures are of type ${[...types].join(', ')}.`
}

/** The run, in which all attempts at a row run again when one of them is pending: they are graded together. */
export function withGroups(run: ChosenRun): ChosenRun {
  const open = new Set(pendingRows(run))
  const { runsAgain } = run
  return { ...run, runsAgain: (event) => runsAgain(event) || open.has(event.source_row_index) }
}

/** The row of each item of a run that has not ended, or runs again. */
export function pendingRows({
  earlier,
  rows,
  n,
  runsAgain,
}: Pick<ChosenRun, 'earlier' | 'rows' | 'n' | 'runsAgain'>): number[] {
  return rows.flatMap(({ source_row: row }) => {
    const attempts = Array.from({ length: n }, (_, run_index) => run_index)
    const pending = attempts.filter((run_index) => {
      const event = earlier?.events.get(itemKey({ source_row_index: row, run_index }))
      return event === undefined || runsAgain(event)
    })
    return pending.map(() => row)
  })
}

/** Whether `--retry-failed` selects an item that has ended. */
function retried({ retryFailed }: EvalRunFlags): ChosenRun['runsAgain'] {
  if (retryFailed === undefined) return () => false
  const types = retryFailed === true ? undefined : new Set(retryFailed.split(','))
  return ({ status, error_type: type }) => status === 'failed' && (types?.has(type ?? '') ?? true)
}

/** The same run under another name. */
export function renamedRun(run: ChosenRun, name: string): ChosenRun {
  return { ...run, name, location: path.join(path.dirname(run.location), name) }
}

function newRun(name: string, { plan, flags }: WantedRun): ChosenRun {
  const location = path.resolve(plan.outputRoot, name)
  const rows = plan.rows.map(toRunRow)
  const runsAgain = retried(flags)
  return { name, location, earlier: undefined, archives: false, rows, n: plan.n, runsAgain }
}

/**
 * Adds the rows and attempts that flags request; none are removed. The numbers in a config only apply to
 * the start of a run.
 */
function grownRun(earlier: RunReader, { plan, flags }: WantedRun): ChosenRun {
  const { manifest, name, location } = earlier
  const own = new Set(manifest.rows.map(({ source_row }) => source_row))
  const requested = selectsRows(flags) ? plan.rows.map(toRunRow) : []
  const rows = [...manifest.rows, ...requested.filter(({ source_row }) => !own.has(source_row))]
  const n = Math.max(manifest.n, flags.n ?? 0)
  return { name, location, earlier, archives: false, rows, n, runsAgain: retried(flags) }
}

async function findUnfinished({ plan, flags, inputs }: WantedRun): Promise<RunReader | undefined> {
  // A folder that cannot be read cannot be written either, which is reported then.
  const runs = await listRuns(plan.outputRoot).catch(() => [])
  for (const { manifest, location } of runs) {
    if (manifest === null || !isOf(manifest, plan, inputs)) continue
    if (changesTo(manifest, inputs).length > 0 || !isWithin(manifest, plan, flags)) continue
    const run = await unlessDamaged(openRun(location))
    // It is damaged, or another process writes to it.
    if (run === undefined || run.writer() !== null) continue
    const { rows, n } = manifest
    if (pendingRows({ earlier: run, rows, n, runsAgain: retried(flags) }).length > 0) return run
  }
  return undefined
}

function isOf(
  { provenance, inputs: own }: RunManifest,
  { config }: EvalRunPlan,
  inputs: KnownInputs,
): boolean {
  if (config !== null) return provenance.config === config
  return provenance.config === null && own.code.entrypoint === inputs.code.entrypoint
}

/** False when flags request fewer rows or attempts than the run has: they mean another run. */
function isWithin({ rows, n }: RunManifest, plan: EvalRunPlan, flags: EvalRunFlags): boolean {
  if (flags.n !== undefined && flags.n < n) return false
  const wanted = new Set(plan.rows.map(({ sourceRowIndex }) => sourceRowIndex))
  return !selectsRows(flags) || rows.every(({ source_row }) => wanted.has(source_row))
}

function changesTo(manifest: RunManifest, inputs: KnownInputs): InputGroup[] {
  // The kind follows from the sources of the entrypoint.
  const { kind } = manifest.inputs.code
  return changedInputs(manifest, { ...inputs, code: { ...inputs.code, kind } } satisfies RunInputs)
}

function otherInputs(name: string, changed: readonly InputGroup[]): OsmosisError {
  const groups = changed.map((group) => groupNames[group]).join(', ')
  const regrade = changed.includes('code')
    ? ` If only the grader has changed, osmosis eval regrade ${name} grades the stored samples again.`
    : ''
  return invalid(
    `The run ${name} cannot be resumed: since it started, these have changed: ${groups}. Pass --fresh to start a new run, which renames the old one to ${name} and the next free number, such as ${name}.1, or pass another --name.${regrade}`,
  )
}

const groupNames: Readonly<Record<InputGroup, string>> = {
  model: 'model (its name, endpoint or parameters)',
  dataset: 'dataset',
  code: 'code (rollout, policy module or eval functions)',
  workflow: 'fields of the config of the workflow ([workflow] or --set)',
  env: 'env',
  secrets: 'secrets (their names)',
  timeouts: 'timeouts',
}
