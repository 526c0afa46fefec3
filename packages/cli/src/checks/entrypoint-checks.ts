import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { formatQuantity } from '@osmosis/eval'

import type { EvalRunPlan } from '../eval/run/evaluation-plan.ts'
import { inspectEntrypoint } from '../child/entrypoint-process.ts'
import { fail, ok, warn, type CheckFinding } from './finding.ts'

/** Checks what an entrypoint exports. It is loaded in a process of its own. */
export async function entrypointFindings(
  { entrypoint, folder }: Pick<EvalRunPlan, 'entrypoint' | 'folder'>,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<CheckFinding[]> {
  const report = await inspectEntrypoint(entrypoint, { folder, environment, signal })
  if (report.kind === 'failed') return [fail('entrypoint', report.message)]
  if (report.kind === 'agent-loop') {
    if (report.problem !== null) return [fail('entrypoint', report.problem)]
    const tools = formatQuantity(report.toolCount, 'tool')
    return [
      ok('entrypoint', `exports the agent loop '${report.name}' with ${tools}`),
      ...report.warnings.map((warning) => warn('entrypoint', warning)),
    ]
  }
  const findings: CheckFinding[] = [ok('entrypoint', 'exports a workflow')]
  if (report.missing.includes('grader')) {
    findings.push(
      fail(
        'grader',
        'The entrypoint exports no grader, so no rollout gets a reward.',
        'Export a class that extends Grader and calls ctx.setReward(…).',
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

/** Names variables that the code reads, and the config does not set. */
export async function variableFindings(plan: EvalRunPlan): Promise<CheckFinding[]> {
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
