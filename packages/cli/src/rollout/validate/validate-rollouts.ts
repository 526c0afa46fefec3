import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { scriptedPolicy } from '@osmosis/controller'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'

import { closing, abortOnInterrupt, survivingStrayRejections } from '../../command/process.ts'
import {
  exitCodeOf,
  fail,
  findingLines,
  ok,
  warn,
  type CheckFinding,
} from '../../command/findings.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { printJson, printOut, workingFolder } from '../../command/surroundings.ts'
import { planEvaluation, type EvalRunPlan } from '../../eval/run/evaluation-plan.ts'
import { openPolicy, policyChoice, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readEnvironment } from '../../inputs/environment.ts'
import { inspectEntrypoint } from '../../inputs/entrypoint-process.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import type { ValidateRolloutFlags } from '../validate.ts'
import { schemaExample } from './schema-example.ts'
import { triedFindings, tryRollout } from './try-rollout.ts'
import { configFindings, findTargets, type ValidationTarget } from './validation-targets.ts'

/**
 * Runs one row of each selected rollout, and prints problems for training. Resolves with the exit code: 0, 1
 * when there are problems, 130 after Ctrl-C.
 *
 * @throws OsmosisError with code `invalid_config` when no rollout has that name
 */
export async function validateRolloutsCommand(
  name: string | undefined,
  flags: ValidateRolloutFlags,
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
  flags: ValidateRolloutFlags,
  signal: AbortSignal,
): Promise<readonly CheckFinding[]> {
  const findings = [...(await configFindings(target))]
  try {
    const environment = readEnvironment()
    if (target.module !== undefined && target.module.dataset === undefined) {
      return await withoutRollout(target.module.file, environment, signal)
    }
    const plan = await planFor(target, flags, environment)
    if (plan === undefined) return findings
    const loaded = await entrypointFindings(plan, environment, signal)
    findings.push(...loaded)
    // Only a config declares variables.
    if (target.module === undefined) findings.push(...(await variableFindings(plan)))
    if (exitCodeOf(loaded) !== 0) return findings
    findings.push(...(await rolloutFindings(plan, { flags, environment, signal })))
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    findings.push(fail('rollout', errorMessage(error)))
  }
  return findings
}

/** Undefined for a rollout without a config, which would name the dataset. */
async function planFor(
  { evalConfig, module }: ValidationTarget,
  { secretsFile, row }: ValidateRolloutFlags,
  environment: NodeJS.ProcessEnv,
): Promise<EvalRunPlan | undefined> {
  const selection = { rows: String(row), ...(secretsFile === undefined ? {} : { secretsFile }) }
  if (module?.dataset !== undefined) {
    const named = { ...selection, module: module.file, dataset: module.dataset }
    return planEvaluation(undefined, named, environment)
  }
  return evalConfig === undefined ? undefined : planEvaluation(evalConfig, selection, environment)
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
    warn('rollout', 'No rollout was run, because no dataset is named.', 'Pass --dataset <file>.'),
  ]
}

async function rolloutFindings(
  plan: EvalRunPlan,
  { flags, environment, signal }: RolloutSurroundings,
): Promise<readonly CheckFinding[]> {
  const chosen = await policyFor(flags, plan, environment)
  const parts = { policy: chosen.policy, environment, signal }
  const tried = await closing(chosen, async () =>
    survivingStrayRejections(async () => tryRollout(plan, parts)),
  )
  return triedFindings(tried)
}

interface RolloutSurroundings {
  readonly flags: ValidateRolloutFlags
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
}

async function entrypointFindings(
  { entrypoint, folder }: Pick<EvalRunPlan, 'entrypoint' | 'folder'>,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<CheckFinding[]> {
  const report = await inspectEntrypoint(entrypoint, { folder, environment, signal })
  if (report.kind === 'failed') return [fail('entrypoint', report.message)]
  if (report.kind === 'agent-loop') {
    if (report.problem !== null) return [fail('entrypoint', report.problem)]
    return [ok('entrypoint', 'exports an agent loop')]
  }
  const findings: CheckFinding[] = [ok('entrypoint', 'exports a workflow')]
  if (report.missing.includes('grader')) {
    findings.push(
      fail(
        'grader',
        'The entrypoint exports no grader, so no rollout gets a reward.',
        'Export a class that extends Grader and calls ctx.setSampleReward for each sample.',
      ),
    )
  }
  if (report.missing.includes('workflow config')) {
    findings.push(
      warn(
        'workflow config',
        'The entrypoint exports no workflow config: at most 4 rollouts run concurrently.',
        "export const config = defineWorkflowConfig({ name: '…', concurrency: { maxConcurrent: … } })",
      ),
    )
  }
  return findings
}

async function variableFindings(plan: EvalRunPlan): Promise<CheckFinding[]> {
  const declared = [...Object.keys(plan.env), ...Object.keys(plan.secrets)]
  const names = await undeclaredVariables(plan.folder, declared)
  if (names.length === 0) return []
  return [
    warn(
      'variables',
      `The code reads ${names.join(', ')}, which the config does not name: on the platform nothing sets them.`,
      'Add secrets to required in [secrets], and everything else to [env].',
    ),
  ]
}

/** Without flags this is a scripted policy, so that a validation costs nothing. */
async function policyFor(
  flags: ValidateRolloutFlags,
  { policy: surroundings }: EvalRunPlan,
  environment: NodeJS.ProcessEnv,
): Promise<Omit<ChosenPolicy, 'name' | 'choice'>> {
  const { defaultPolicy, policies } = surroundings.workspace
  const preset = defaultPolicy === null ? undefined : policies.get(defaultPolicy)
  const isNamed = flags.policy !== undefined || flags.baseUrl !== undefined
  if (isNamed || preset?.kind === 'module' || flags.model !== undefined) {
    return openPolicy(policyChoice(flags, surroundings), environment)
  }
  return {
    policy: probe,
    apiKey: undefined,
    [Symbol.asyncDispose]: async () => {},
  }
}

interface ProbedTool {
  readonly function?: { readonly name?: string; readonly parameters?: object }
}

/** Calls the first tool, and then answers, both by their schemas. */
const probe = scriptedPolicy(({ tools, turn, body }) => {
  const { tool_choice: choice, response_format: format } = body
  const { name: chosen } = (choice as ProbedTool | null | undefined)?.function ?? {}
  const offered = tools as readonly ProbedTool[]
  // Behind its other tools an agent may offer one for its structured answer.
  const called = turn === 0 || choice !== 'required' ? offered[0] : offered.at(-1)
  const tool = offered.find((one) => one.function?.name === chosen) ?? called
  const { name, parameters = {} } = tool?.function ?? {}
  const mustCall = turn === 0 || chosen !== undefined || choice === 'required'
  if (name !== undefined && mustCall) {
    return { toolCalls: [{ name, arguments: JSON.stringify(schemaExample(parameters)) }] }
  }
  const { type, json_schema: asked } = (format ?? {}) as {
    type?: string
    json_schema?: { schema?: object }
  }
  if (type === 'json_schema') return JSON.stringify(schemaExample(asked?.schema ?? {}))
  return type === 'json_object' ? '{}' : 'A scripted answer.'
})

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** Variables that the system and Osmosis set wherever a rollout runs. */
const common =
  /^(?:_?OSMOSIS_.*|ROLLOUT_PORT|NODE_.*|CI|DEBUG|HOME|LANG|LOGNAME|PATH|PWD|SHELL|TEMP|TERM|TMP|TMPDIR|TZ|USER)$/

/**
 * Undeclared variables that the code of a rollout reads, as in `process.env.NAME`. Variables that packages
 * read, and computed names, are not found.
 */
async function undeclaredVariables(
  folder: string,
  declared: readonly string[],
): Promise<readonly string[]> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const sources = files
    .filter((entry) => entry.isFile() && /(?<!\.test)\.[cm]?[jt]sx?$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => !path.relative(folder, file).split(path.sep).includes('node_modules'))
  const texts = await Promise.all(sources.map(async (file) => readFile(file, 'utf8')))
  const names = texts.flatMap((text) =>
    [...text.matchAll(/\bprocess\.env(?:\.([A-Za-z_]\w*)|\[\s*(['"])([A-Za-z_]\w*)\2\s*\])/g)].map(
      ([, dotted, , quoted]) => dotted ?? quoted ?? '',
    ),
  )
  const known = new Set(declared)
  return [...new Set(names)].filter((name) => !known.has(name) && !common.test(name)).toSorted()
}
