import { errorMessage, isRewardFunction } from '@osmosis/core'
import { isGroupGraderClass } from '@osmosis/core/workflow'
import {
  gradeByFunction,
  gradeByGrader,
  toScorer,
  type GradeRollouts,
  type StoredRollout,
  type StoredGrading,
} from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'
import type { WorkerEntrypoint } from '@osmosis/server/child'
import { discoverGrader, type Entrypoint } from '@osmosis/server/execution'

import { invalidEntrypoint } from '../../command/wrong-use.ts'
import {
  loadExports,
  namedExport,
  splitSpec,
  type LoadedExports,
} from '../../inputs/load-module.ts'

/** The grader that a process has to load. */
export interface GraderOrder extends Pick<StoredGrading, 'timeoutSeconds' | 'artifactRoot'> {
  /** `<file>[:<export>]`; null for the grader of the entrypoint. */
  readonly grader: string | null
  /** The entrypoint of the run; null when the workspace does not have it. */
  readonly entrypoint: string | null
  readonly kind: RunInputs['code']['kind']
}

/** Facts about a loaded grader. */
export interface GraderFacts {
  /** Name of the class or function. */
  readonly name: string
  /** Whether it grades the attempts at a row together. */
  readonly gradesGroups: boolean
  /** A sentence about each config that it may lack. */
  readonly warnings: readonly string[]
}

interface LoadedGrader extends GraderFacts {
  readonly grade: GradeRollouts
}

/** Loads the grader of an order, which then grades the rollouts that it is asked about. */
export async function loadGrading(order: GraderOrder): Promise<WorkerEntrypoint> {
  const { grade, ...facts } = await loadGrader(order)
  return {
    facts: facts satisfies GraderFacts,
    answer: async (rollouts) => grade(rollouts as readonly StoredRollout[]),
    onStrayError: (error, origin) => {
      // After an unhandled rejection its grades are still valid.
      const isRejection = origin === 'unhandledRejection'
      const what = isRejection ? 'warning: unhandled rejection' : 'error: uncaught exception'
      process.stderr.write(`${what} in user code: ${errorMessage(error)}\n`)
      if (!isRejection) process.exit(1)
    },
  }
}

/**
 * Loads a grader: a class, with the configs that its module or else the entrypoint of the run exports; or
 * an eval function.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
async function loadGrader(order: GraderOrder): Promise<LoadedGrader> {
  const { file, name } = splitSpec(order.grader ?? order.entrypoint ?? '')
  const loaded = await loadExports('grader', file)
  // The export that an entrypoint names is its loop.
  const chosen = order.grader === null ? undefined : name
  if (chosen !== undefined) namedExport(loaded, chosen)
  const { grader, ...own } = discoverGrader(loaded.exports, loaded.file, chosen)
  if (grader === undefined) return functionOf(loaded, chosen, order)
  const { configs, warnings } = await configsFor(own, order)
  return {
    name: grader.name,
    grade: gradeByGrader({ ...order, ...configs, grader }),
    gradesGroups: isGroupGraderClass(grader),
    warnings,
  }
}

type Configs = Pick<Entrypoint, 'graderConfig' | 'workflowConfig'>

/** The entrypoint has the configs of a grader in another file. */
async function configsFor(
  own: Configs,
  { grader, entrypoint }: GraderOrder,
): Promise<{ configs: Configs; warnings: string[] }> {
  if (grader === null) return { configs: own, warnings: [] }
  if (entrypoint === null) {
    const why =
      'The workspace of this folder has no entrypoint of the run, so its configs are not known.'
    return { configs: own, warnings: [why] }
  }
  try {
    const { exports, file } = await loadExports('entrypoint', splitSpec(entrypoint).file)
    const { graderConfig, workflowConfig } = discoverGrader(exports, file)
    const configs = {
      graderConfig: own.graderConfig ?? graderConfig,
      workflowConfig: own.workflowConfig ?? workflowConfig,
    }
    return { configs, warnings: [] }
  } catch (error) {
    return {
      configs: own,
      warnings: [`The configs of the entrypoint are not known. ${errorMessage(error)}`],
    }
  }
}

function functionOf(
  { exports, file }: LoadedExports,
  name: string | undefined,
  { kind, timeoutSeconds, grader }: GraderOrder,
): LoadedGrader {
  const functions = Object.entries(exports).filter(([key, value]) =>
    name === undefined ? isEvalFunction(value) : key === name,
  )
  const [found, ...others] = functions
  if (found === undefined) {
    const advice =
      grader === null
        ? 'Name one with --grader: a file with a class that extends Grader, or <file>:<eval function>.'
        : 'Export one class that extends Grader or GroupGrader, or an eval function.'
    throw invalidEntrypoint(`${file} exports no grader. ${advice}`)
  }
  if (others.length > 0) {
    const names = functions.map(([key]) => `${file}:${key}`).toSorted()
    throw invalidEntrypoint(
      `${file} exports several functions. Name the one to grade with: ${names.join(', ')}.`,
    )
  }
  const [key, value] = found
  if (!isEvalFunction(value)) {
    throw invalidEntrypoint(
      `'${file}:${key}' cannot grade: it is neither a class that extends Grader nor an eval function, which takes one object, { messages, solutionStr, groundTruth, metadata, reward }, or is made by defineReward().`,
    )
  }
  return {
    name: key,
    grade: gradeByFunction(toScorer(key, value), { kind, timeoutSeconds }),
    gradesGroups: false,
    warnings: [],
  }
}

function isEvalFunction(value: unknown): value is (...args: never[]) => unknown {
  if (isRewardFunction(value)) return true
  return typeof value === 'function' && value.length <= 1 && !isClass(value)
}

function isClass(value: object): boolean {
  return Function.prototype.toString.call(value).startsWith('class')
}
