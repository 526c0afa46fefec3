import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { assertRunName } from '@osmosis/eval'
import {
  reportFigures,
  runStatistics,
  unitText,
  type FigureKey,
  type ReportFigure,
} from '@osmosis/eval/analysis'
import { openLocalLearner, type LocalLearner } from '@osmosis/train'

import { printError, printJson, printOut, displayPath } from '../../command/command-context.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { withCommand } from '../../command/output/shown-command.ts'
import { styled, tableLines, type Cell } from '../../command/terminal-text.ts'
import { invalid, refuseOneOf } from '../../command/wrong-use.ts'
import { currentWorkspace, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readLearnerFile, type LearnerFile } from '../models/learner-file.ts'
import type { EvalRunFlags, ParsedRunFlags } from '../run.ts'
import { briefText } from '../show/figure-text.ts'
import { areComparable, openShownRun, type ShownRun } from '../show/shown-run.ts'
import { evaluateOnce } from './run-evaluation.ts'

/** One of the runs that a command makes. */
interface Variant {
  /** What sets it apart: `max_iterations=4`. */
  readonly label: string
  readonly flags: EvalRunFlags
  /** Folder of the checkpoint that is evaluated; undefined for models that flags name. */
  readonly checkpoint?: string | undefined
}

/**
 * Makes a run, or one for each model of `--models` and each value of `--set`, one after the other, and compares them.
 * Resolves with the exit code: that of the run; of several the first that is not 0.
 *
 * @throws what {@link evaluateOnce} throws
 */
export async function runVariants(
  configFile: string | undefined,
  flags: ParsedRunFlags,
): Promise<number> {
  const found =
    flags.checkpoints === undefined ? undefined : await findCheckpoints(flags.checkpoints)
  const variants = await variantsOf(flags, found)
  const isSilent = variants.length > 1
  if (isSilent && flags.junit !== undefined) {
    throw invalid(
      '--junit is for one run: write the results of each with osmosis eval export <run> --junit <file>.',
    )
  }
  if (isSilent && flags.details) {
    throw invalid(
      '--details is for one run, and several are compared: print the details of each with osmosis eval show <run> --details.',
    )
  }
  const learner = found && (await openLocalLearner(found.learner))
  const made: { readonly label: string; readonly location: string }[] = []
  let code = 0
  try {
    for (const [at, { label, flags: own, checkpoint: folder }] of variants.entries()) {
      if (isSilent && !flags.quiet) {
        printError(`\n${styled('bold', label)}  ${at + 1} of ${variants.length}\n`)
      }
      const opened = (location: string): void => void made.push({ label, location })
      const checkpoint =
        learner === undefined || folder === undefined
          ? undefined
          : await loadedCheckpoint(learner, folder)
      const ended = await evaluateOnce(configFile, own, { opened, isSilent, checkpoint })
      code ||= ended
      if (ended === interruptedExitCode) break
    }
  } finally {
    await learner?.close()
  }
  if (!isSilent) return code
  const runs = await Promise.all(
    made.map(async ({ label, location }) => ({
      label,
      run: await openShownRun({ location, variant: undefined }),
    })),
  )
  if (flags.json) printJson(runs.map(variantDocument))
  else if (runs.length > 0) printOut(`\n${comparisonLines(runs).join('\n')}\n`)
  return code
}

/** A model or checkpoint, as a variant before its fields are set. */
interface NamedModel extends Pick<Variant, 'label' | 'checkpoint'> {
  readonly flags: Partial<EvalRunFlags>
}

/** Each model or checkpoint with each combination of the values of `--set`. */
async function variantsOf(
  flags: ParsedRunFlags,
  checkpoints: FoundCheckpoints | undefined,
): Promise<Variant[]> {
  const { set = {}, models, ...rest } = flags
  const answering =
    checkpoints === undefined
      ? await namedModels(models, rest)
      : namedCheckpoints(checkpoints, flags)
  const fields = combinations(Object.entries(set))
  const several = Object.entries(set).filter(([, values]) => values.length > 1)
  const isOnly = answering.length * fields.length === 1
  const names = new Set<string>()
  return answering.flatMap(({ label: name, flags: own, checkpoint }) =>
    fields.map((values): Variant => {
      const parts = several.map(([field]) => `${field}=${String(values[field])}`)
      const label = [...(name === '' ? [] : [name]), ...parts].join(' ')
      return {
        label,
        checkpoint,
        flags: {
          ...rest,
          ...own,
          ...(Object.keys(values).length === 0 ? {} : { set: values }),
          ...(rest.name === undefined || isOnly
            ? {}
            : { name: variantName(rest.name, label, names) }),
        },
      }
    }),
  )
}

/** The models of `--models`; without it the one that other flags name. */
async function namedModels(models: string | undefined, flags: EvalRunFlags): Promise<NamedModel[]> {
  if (models === undefined) return [{ label: '', flags: {} }]
  const names = models.split(',').map((name) => name.trim())
  assertModels(names, flags)
  const { policies } = await currentWorkspace()
  return names.map((name) => {
    const isPolicy = policies.has(name) || /\.[cm]?[jt]s$/.test(name)
    return { label: name, flags: isPolicy ? { policy: name } : { model: name } }
  })
}

function namedCheckpoints({ folders }: FoundCheckpoints, flags: ParsedRunFlags): NamedModel[] {
  assertOnlyCheckpoints(flags)
  return folders.map((checkpoint) => ({
    label: path.basename(checkpoint),
    checkpoint,
    flags: { checkpoints: checkpoint },
  }))
}

function assertOnlyCheckpoints(flags: ParsedRunFlags): void {
  const { model, models, policy, baseUrl, server } = flags
  refuseOneOf(
    {
      '--model': model,
      '--models': models,
      '--policy': policy,
      '--base-url': baseUrl,
      '--server': server,
    },
    (flag) => `${flag} and --checkpoints exclude each other: the checkpoints are the models.`,
  )
}

function assertModels(models: readonly string[], flags: EvalRunFlags): void {
  if (models.includes('') || new Set(models).size < models.length) {
    throw invalid(
      `--models must be different names, separated by commas, got '${models.join(',')}'.`,
    )
  }
  refuseOneOf(
    { '--model': flags.model, '--policy': flags.policy },
    (flag) => `Pass either --models or ${flag}: --models names every model that is compared.`,
  )
}

/** Every combination of one value of each field. */
function combinations(
  fields: readonly (readonly [string, readonly unknown[]])[],
): Readonly<Record<string, unknown>>[] {
  const [[field, values] = [], ...rest] = fields
  if (field === undefined || values === undefined) return [{}]
  const others = combinations(rest)
  return values.flatMap((value) => others.map((other) => ({ [field]: value, ...other })))
}

/**
 * The name of a run, with what sets it apart. Labels may differ only in characters that names do not have: a number
 * then tells their names apart, which is the same whenever the command runs again.
 *
 * @param taken - names of other variants, to which it is added
 * @throws OsmosisError with code `invalid_config` for an invalid name
 */
function variantName(name: string, label: string, taken: Set<string>): string {
  const own = `${name}-${label.replaceAll(/[^A-Za-z0-9._]+/g, '-')}`
  let free = own
  for (let number = 2; taken.has(free); number += 1) free = `${own}-${number}`
  assertRunName(free)
  taken.add(free)
  return free
}

interface VariantRun {
  readonly label: string
  readonly run: ShownRun
}

function figuresOf({ run: { table } }: VariantRun): ReadonlyMap<FigureKey, ReportFigure> {
  return new Map(reportFigures(table, runStatistics(table)).map((figure) => [figure.key, figure]))
}

function variantDocument(variant: VariantRun): object {
  const figures = [...figuresOf(variant).values()].flatMap(({ key, value, interval }) =>
    value === undefined ? [] : [[key, { value, ci95: interval?.ci95 ?? null }] as const],
  )
  const { label, run } = variant
  const { reader } = run
  return {
    label,
    run: run.name,
    location: reader.location,
    model: run.table.document.model,
    workflow: reader.manifest.inputs.workflow ?? {},
    figures: Object.fromEntries(figures),
  }
}

const barWidth = 20

const amountKeys = ['tokens', 'time', 'cost'] as const

/** A table of the runs, with a bar for each pass rate, and the command that compares the best with the first. */
function comparisonLines(runs: readonly VariantRun[]): string[] {
  const amounts = amountKeys.filter((key) => runs.some((run) => figuresOf(run).has(key)))
  const titles = amounts.map((key) => key.charAt(0).toUpperCase() + key.slice(1))
  const head = ['', 'Reward', 'Pass rate', '', ...titles, 'Run']
  const rows = runs.map((run) => variantRow(run, amounts))
  const best = runs.toSorted((a, b) => passRate(b) - passRate(a))[0]
  const [first] = runs
  return [
    ...tableLines([head.map((text): Cell => ({ text, format: 'dim' })), ...rows], {
      right: amounts.map((_, at) => at + 4),
    }),
    ...(best === undefined ||
    first === undefined ||
    best === first ||
    !areComparable(first.run.table, best.run.table)
      ? []
      : ['', ...withCommand('Compare ', ['eval', 'compare', first.run.command, best.run.command])]),
  ]
}

function passRate(variant: VariantRun): number {
  return figuresOf(variant).get('pass_rate')?.value ?? 0
}

function variantRow(variant: VariantRun, amounts: readonly FigureKey[]): (Cell | string)[] {
  const figures = figuresOf(variant)
  const share = Math.round((figures.get('pass_rate')?.value ?? 0) * barWidth)
  return [
    { text: variant.label, format: 'bold' },
    estimateText(figures.get('mean'), 'plain'),
    estimateText(figures.get('pass_rate'), 'share'),
    '█'.repeat(share) + '·'.repeat(barWidth - share),
    ...amounts.map((key) => amountText(figures.get(key))),
    variant.run.name,
  ]
}

function estimateText(figure: ReportFigure | undefined, scale: 'plain' | 'share'): string {
  const { value = null, interval } = figure ?? {}
  return briefText({ value, ci95: interval?.ci95 ?? null, rows: interval?.rows ?? 0 }, scale)
}

function amountText(figure: ReportFigure | undefined): string {
  const { value = null } = figure ?? {}
  return figure === undefined || value === null ? '' : unitText(value, figure.unit)
}

/** Checkpoints of a training on this machine. */
interface FoundCheckpoints {
  readonly learner: LearnerFile
  /** Absolute, in the order of their steps. */
  readonly folders: readonly string[]
}

/**
 * Finds the checkpoints that a folder names: those of a training, or one of them.
 *
 * @throws OsmosisError with code `invalid_config` when there are none, or another program trained; `damaged_run` when its
 * learner.json cannot be read
 */
async function findCheckpoints(name: string): Promise<FoundCheckpoints> {
  const folder = path.resolve(displayPath(name))
  const one = path.basename(path.dirname(folder)) === 'checkpoints'
  const training = one
    ? path.dirname(path.dirname(folder))
    : path.basename(folder) === 'checkpoints'
      ? path.dirname(folder)
      : folder
  const learner = await readLearnerFile(training)
  if (learner === undefined) {
    throw invalid(
      `${folder} has no checkpoints of osmosis train local: name the folder of a training, such as .osmosis/training/my-agent, or one of its checkpoints. For other models serve them and pass --models.`,
    )
  }
  const inside = path.join(training, 'checkpoints')
  const all = existsSync(inside) ? await readdir(inside) : []
  // Beside the checkpoints lie those that a kill left unfinished, and damaged ones that were set aside.
  const names = one ? [path.basename(folder)] : all.filter((each) => /^step-\d+$/.test(each))
  const folders = names.toSorted().map((each) => path.join(inside, each))
  if (folders.length > 0 && folders.every((each) => existsSync(each))) return { learner, folders }
  throw invalid(`There are no checkpoints in ${one ? folder : inside} yet.`)
}

/**
 * Loads a checkpoint; until the next one the learner answers as it.
 *
 * @throws OsmosisError with code `learner_error`
 */
async function loadedCheckpoint(learner: LocalLearner, folder: string): Promise<ChosenPolicy> {
  await learner.load(folder)
  const model = `${learner.name}@${learner.version}`
  return {
    policy: learner.policy,
    name: model,
    apiKey: undefined,
    choice: { kind: 'checkpoint', model, folder },
    // Other checkpoints need it.
    [Symbol.asyncDispose]: async () => {},
  }
}
