import { errorMessage, isRewardFunction, OsmosisError } from '@osmosis/core'
import { isGroupGraderClass } from '@osmosis/core/workflow'
import {
  gradeByFunction,
  gradeByGrader,
  toScorer,
  type GradeRollouts,
  type StoredGrading,
} from '@osmosis/eval'
import type { RunInputs } from '@osmosis/eval/analysis'
import { discoverGrader, type Entrypoint } from '@osmosis/runtime'

import {
  loadExports,
  namedExport,
  splitSpec,
  type LoadedExports,
} from '../../inputs/load-module.ts'

/** What to grade with, as the process is told that does it. */
export interface GraderOrder extends Pick<StoredGrading, 'timeoutSeconds' | 'artifactRoot'> {
  /** `<file>[:<export>]`; null for the grader of the entrypoint. */
  readonly grader: string | null
  /** The module that ran; null when it is not there any more. */
  readonly entrypoint: string | null
  readonly kind: RunInputs['code']['kind']
}

/** A grader that was found. */
export interface LoadedGrader {
  /** Of the class or the function. */
  readonly name: string
  readonly grade: GradeRollouts
  /** Whether it grades the attempts at a row together. */
  readonly gradesGroups: boolean
  /** What it may lack, a sentence each. */
  readonly warnings: readonly string[]
}

/**
 * Loads what grades: the class of a grader, with the configs that are exported beside it, else by the
 * entrypoint of the run; or an eval function.
 *
 * @throws OsmosisError with code `invalid_entrypoint`
 */
export async function loadGrader(order: GraderOrder): Promise<LoadedGrader> {
  const { file, name } = splitSpec(order.grader ?? order.entrypoint ?? '')
  const loaded = await loadExports('grader', file)
  // What an entrypoint names is its loop.
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

/** A grader in a file of its own is configured where the entrypoint is. */
async function configsFor(
  own: Configs,
  { grader, entrypoint }: GraderOrder,
): Promise<{ configs: Configs; warnings: string[] }> {
  if (grader === null) return { configs: own, warnings: [] }
  if (entrypoint === null) {
    const why = 'The entrypoint of the run is not there any more: its configs are not known.'
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
    throw invalid(`${file} exports no grader. ${advice}`)
  }
  if (others.length > 0) {
    const names = functions.map(([key]) => `${file}:${key}`).toSorted()
    throw invalid(
      `${file} exports several functions. Name the one to grade with: ${names.join(', ')}.`,
    )
  }
  const [key, value] = found
  if (!isEvalFunction(value)) {
    throw invalid(
      `'${file}:${key}' can grade nothing: it is neither a class that extends Grader nor an eval function, which takes one object, { messages, solutionStr, groundTruth, metadata, reward }, or is made by defineReward().`,
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

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_entrypoint', message)
}
