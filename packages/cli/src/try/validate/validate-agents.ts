import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, type OsmosisError } from '@osmosis/core'
import { findWorkspaceRoot, readTrainingConfig } from '@osmosis/eval'
import { formatQuantity } from '@osmosis/eval/analysis'

import { changeFor, changeOfDataset } from '../../checks/failure-advice.ts'
import {
  type CheckFinding,
  exitCodeOf,
  fail,
  findingLines,
  warn,
  ok,
} from '../../checks/finding.ts'
import { learnerFinding } from '../../checks/installation-checks.ts'
import { page } from '../../checks/pages.ts'
import { placeInMessage, placeInStack, placeOfLoading, type Place } from '../../checks/place.ts'
import { triedFindings } from '../../checks/rollout/rollout-findings.ts'
import { probe } from '../../checks/rollout/scripted-probe.ts'
import { tryRollout } from '../../checks/rollout/tried-rollout.ts'
import { variableFindings } from '../../checks/rollout/undeclared-variables.ts'
import { type ConfigFile, configFinding, workspaceConfigs } from '../../checks/workspace-checks.ts'
import { inspectEntrypoint } from '../../child/entrypoint-process.ts'
import type { EntrypointReport } from '../../child/inspected-entrypoint.ts'
import {
  fromWorkingFolder,
  printJson,
  printOut,
  resolvePath,
  workingFolder,
} from '../../command/command-context.ts'
import { completeEnvironment } from '../../command/environment.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { abortOnInterrupt, closing, survivingStrayRejections } from '../../command/process.ts'
import { invalid } from '../../command/wrong-use.ts'
import { type EvalRunPlan, planEvaluation } from '../../eval/run/evaluation-plan.ts'
import { type ChosenPolicy, openPolicy, policyChoice } from '../../inputs/choose-policy.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import { howToStart } from '../../inputs/nearest-project.ts'
import type { ValidateFlags } from '../validate.ts'

/**
 * Runs one row of each selected rollout, and prints problems for training. Resolves with the exit code: 0, 1
 * when there are problems, 130 after Ctrl-C.
 *
 * @throws OsmosisError with code `invalid_config` when no rollout has that name
 */
export async function validateCommand(
  name: string | undefined,
  flags: ValidateFlags,
): Promise<number> {
  if (name !== undefined && flags.module !== undefined) {
    throw invalid('Name either a rollout of the workspace, or --module.')
  }
  const targets = await findTargets(name, flags)
  const interrupt = abortOnInterrupt()
  const { signal } = interrupt
  try {
    const reports: { rollout: string; findings: readonly CheckFinding[] }[] = []
    for (const target of targets) {
      const findings = await validate(target, flags, signal)
      reports.push({ rollout: target.name, findings })
      if (signal.aborted) return interruptedExitCode
      if (flags.json !== true) printOut(`${target.name}\n${findingLines(findings)}\n`)
    }
    if (flags.json === true) {
      printJson({ rollouts: reports })
    }
    return exitCodeOf(reports.flatMap(({ findings }) => findings))
  } finally {
    interrupt.release()
  }
}

async function validate(
  target: ValidationTarget,
  flags: ValidateFlags,
  signal: AbortSignal,
): Promise<readonly CheckFinding[]> {
  const findings: CheckFinding[] = []
  try {
    const environment = completeEnvironment()
    for (const config of target.configs) {
      const finding = await configFinding(config)
      findings.push(finding)
      // The rest is planned by the eval config, without one by that of a training.
      const plans = target.evalConfig === undefined || config.file === target.evalConfig
      if (finding.level === 'fail' && plans) return findings
    }
    if (target.module !== undefined && target.module.dataset === undefined) {
      return await withoutRollout(target.module.file, environment, signal)
    }
    const planned = await planFor(target, flags, environment)
    if (planned === undefined) {
      const file = `configs/eval/${target.name}.toml`
      const advice = `Write ${file}, or name a module: --module rollouts/${target.name}/main.ts --dataset <file>`
      const message = `No config in configs/eval/ or configs/training/ names the rollout ${target.name}.`
      return [...findings, fail('config', message, { file, advice, page: page('config') })]
    }
    const row = planned.allRows[flags.row]
    if (row === undefined) return [...findings, missingRow(planned, flags.row)]
    const plan = { ...planned, rows: [row] }
    const loaded = await entrypointFindings(plan, environment, signal)
    findings.push(...loaded)
    // Only a config declares variables.
    if (target.module === undefined) findings.push(...(await variableFindings(plan)))
    if (exitCodeOf(loaded) !== 0) return findings
    findings.push(...(await rolloutFindings(plan, flags, environment, signal)))
    if (target.configs.some(({ kind }) => kind === 'training')) {
      const learner = await learnerFinding(environment)
      if (learner.level !== 'ok') findings.push(learner)
    }
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    findings.push(errorFinding(error))
  }
  return findings
}

function missingRow({ allRows, datasetFile }: EvalRunPlan, row: number): CheckFinding {
  const file = fromWorkingFolder(datasetFile)
  const there = formatQuantity(allRows.length, 'row')
  return fail('dataset', `--row ${row} is out of range: ${file} has ${there}, counted from 0.`, {
    file,
    advice: `Pass a --row from 0 to ${allRows.length - 1}.`,
    page: page('datasets'),
  })
}

/** An error that ended the validation. The messages of those about rows begin with their lines, below the name of the file. */
function errorFinding(error: OsmosisError): CheckFinding {
  const message = errorMessage(error)
  const checks = { invalid_config: 'config', invalid_dataset: 'dataset' } as const
  const check = checks[error.code as keyof typeof checks] ?? 'rollout'
  const change = error.code === 'invalid_dataset' ? changeOfDataset(message) : changeFor(error.code)
  return fail(check, message, { ...placeInMessage(message), ...change })
}

/** Undefined for a rollout without a config, which would name the dataset. */
async function planFor(
  { evalConfig, configs, module }: ValidationTarget,
  { secretsFile }: ValidateFlags,
  environment: NodeJS.ProcessEnv,
): Promise<EvalRunPlan | undefined> {
  const selection = secretsFile === undefined ? {} : { secretsFile }
  if (module?.dataset !== undefined) {
    const named = { ...selection, module: module.file, dataset: module.dataset }
    return planEvaluation(undefined, named, environment)
  }
  if (evalConfig !== undefined) return planEvaluation(evalConfig, selection, environment)
  const training = configs.find(({ kind }) => kind === 'training')
  if (training === undefined) return undefined
  // What a training has of an evaluation: its entrypoint, its rows, and the folder in which it executes.
  const { experiment } = await readTrainingConfig(training.file)
  const named = { module: experiment.entrypointFile, dataset: experiment.datasetFile }
  const options = { ...selection, ...named }
  const plan = await planEvaluation(undefined, options, environment, experiment.columns)
  return { ...plan, folder: experiment.rolloutFolder }
}

async function withoutRollout(
  module: string,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<readonly CheckFinding[]> {
  const { file, name } = splitSpec(module)
  const found = moduleFile('entrypoint', file)
  const entrypoint = name === undefined ? found : `${found}:${name}`
  const plan = { entrypoint, folder: workingFolder() }
  return [
    ...(await entrypointFindings(plan, environment, signal)),
    warn('rollout', 'No rollout was run, because no dataset is named.', {
      advice: 'Pass --dataset <file>.',
      page: page('datasets'),
    }),
  ]
}

async function rolloutFindings(
  plan: EvalRunPlan,
  flags: ValidateFlags,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<readonly CheckFinding[]> {
  const chosen = await policyFor(flags, plan, environment)
  const tried = await closing(chosen, async ({ policy }) =>
    survivingStrayRejections(async () => tryRollout(plan, policy, environment, signal)),
  )
  return triedFindings(tried, plan)
}

/** Without flags this is a scripted policy, so that a validation costs nothing. */
async function policyFor(
  flags: ValidateFlags,
  { policy: defaults }: EvalRunPlan,
  environment: NodeJS.ProcessEnv,
): Promise<Omit<ChosenPolicy, 'name' | 'choice'>> {
  const { defaultPolicy, policies } = defaults.workspace
  const preset = defaultPolicy === null ? undefined : policies.get(defaultPolicy)
  const isNamed = flags.policy !== undefined || flags.baseUrl !== undefined
  if (isNamed || preset?.kind === 'module' || flags.model !== undefined) {
    return openPolicy(policyChoice(flags, defaults), environment)
  }
  return { policy: probe, apiKey: undefined, [Symbol.asyncDispose]: async () => {} }
}

/** A rollout to validate. */
interface ValidationTarget {
  readonly name: string
  /** Its configs in the workspace, absolute. */
  readonly configs: readonly ConfigFile[]
  /** The eval config to run it with; undefined for a module. */
  readonly evalConfig: string | undefined
  /** A module to run without a config. */
  readonly module: { readonly file: string; readonly dataset: string | undefined } | undefined
}

/**
 * The targets of a validation: a module, or rollouts of the workspace.
 *
 * @throws OsmosisError with code `invalid_config` without a target
 */
async function findTargets(
  name: string | undefined,
  { module, dataset }: ValidateFlags,
): Promise<readonly ValidationTarget[]> {
  if (module !== undefined) {
    const target = { file: module, dataset }
    return [{ name: module, configs: [], evalConfig: undefined, module: target }]
  }
  if (dataset !== undefined) throw invalid('--dataset goes with --module: a config has one.')
  const root = await findWorkspaceRoot(resolvePath('osmosis.toml'))
  if (root === undefined) {
    throw invalid(
      `Not in an Osmosis workspace: no folder here or above has both rollouts/ and data/. Name a module with --module and --dataset, or start a workspace: ${howToStart(workingFolder())}`,
    )
  }
  const entries = await readdir(path.join(root, 'rollouts'), { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  if (names.length === 0) throw invalid(`${path.join(root, 'rollouts')} contains no rollouts.`)
  if (name !== undefined && !names.includes(name)) {
    throw invalid(`rollouts/ has no rollout ${name}. Available: ${names.join(', ')}.`)
  }
  const configs = await workspaceConfigs(root)
  return (name === undefined ? names.toSorted() : [name]).map((rollout) => {
    const own = configs.filter((config) => config.rollout === rollout)
    const evalConfig = own.find(({ kind }) => kind === 'eval')?.file
    return { name: rollout, configs: own, evalConfig, module: undefined }
  })
}

/** Checks what an entrypoint exports. It is loaded in a process of its own. */
async function entrypointFindings(
  { entrypoint, folder }: Pick<EvalRunPlan, 'entrypoint' | 'folder'>,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<CheckFinding[]> {
  const report = await inspectEntrypoint(entrypoint, { folder, environment, signal })
  const { file } = splitSpec(fromWorkingFolder(resolvePath(entrypoint)))
  if (report.kind === 'failed') {
    return [loadingFinding(report, { file, ...placeOfLoading(folder, report.message) })]
  }
  if (report.kind === 'agent-loop') {
    if (report.problem !== null) {
      const change = { advice: 'Correct what it lists.', page: page('agentLoops') }
      return [fail('entrypoint', report.problem, { ...placeInStack(report.problem), ...change })]
    }
    const tools = formatQuantity(report.toolCount, 'tool')
    return [
      ok('entrypoint', `exports the agent loop '${report.name}' with ${tools}`),
      ...report.warnings.map((warning) => warn('entrypoint', warning)),
    ]
  }
  const findings: CheckFinding[] = [ok('entrypoint', 'exports a workflow')]
  if (report.missing.includes('grader')) {
    findings.push(
      fail('grader', 'The entrypoint exports no grader, so no rollout gets a reward.', {
        file,
        advice: 'Export a class that extends Grader and calls ctx.setReward(…).',
        page: page('graders'),
      }),
    )
  }
  if (report.missing.includes('workflow config')) {
    findings.push(
      warn(
        'workflow config',
        'The entrypoint exports no workflow config: at most 4 rollouts run concurrently.',
        {
          file,
          advice:
            "export const config = defineWorkflowConfig({ name: '…', concurrency: { maxConcurrent: … } })",
          page: page('concurrency'),
        },
      ),
    )
  }
  return findings
}

/** An entrypoint that cannot be loaded: what to install is below the stack of the error. */
function loadingFinding(
  { message, code }: Extract<EntrypointReport, { kind: 'failed' }>,
  place: Place,
): CheckFinding {
  const lines = message.split('\n')
  const said = lines.filter((line) => !/^ +at |^→ /.test(line))
  const advice = lines.find((line) => line.startsWith('→ '))?.slice(2)
  return fail('entrypoint', said.join('\n'), {
    ...place,
    ...changeFor(code ?? 'invalid_entrypoint'),
    ...(advice === undefined ? {} : { advice }),
  })
}
