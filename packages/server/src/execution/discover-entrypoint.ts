import {
  OsmosisError,
  type AgentWorkflowClass,
  type GraderConfig,
  type WorkflowConfig,
  type GraderClass,
  type GroupGraderClass,
} from '@osmosis/core'
import {
  isAgentWorkflowClass,
  configKind,
  isGraderClass,
  isGroupGraderClass,
} from '@osmosis/core/workflow'

/** What an entrypoint module exports for the backend to run. */
export interface Entrypoint {
  readonly workflow: AgentWorkflowClass
  readonly workflowConfig: WorkflowConfig | undefined
  readonly grader: GraderClass | GroupGraderClass | undefined
  readonly graderConfig: GraderConfig | undefined
}

/**
 * Finds the workflow of a module by what it exports: exactly one concrete workflow, at most one
 * grader (of rollouts or of groups), at most one config of each kind. Several export names of one thing count once.
 *
 * @param exports - the module's namespace object
 * @param file - how error messages name the module
 * @throws OsmosisError with code `invalid_entrypoint` that lists what was found
 */
export function discoverEntrypoint(
  exports: Readonly<Record<string, unknown>>,
  file = 'the entrypoint',
): Entrypoint {
  const found = findAll(exports)
  const [workflow] = atMostOne(found.workflows, 'AgentWorkflow subclasses', file)
  if (workflow === undefined) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `No AgentWorkflow subclass with a run() method is exported from ${file} (exports: ${Object.keys(exports).join(', ') || 'none'}). Export the one class that extends AgentWorkflow.`,
    )
  }
  return {
    workflow: workflow.value,
    ...partsBesides(found, file),
  }
}

/**
 * Finds the grader of a module that need not have a workflow, and the configs beside it. The same
 * rules as those of {@link discoverEntrypoint}.
 *
 * @param name - the export that the grader is; default: the only grader there is
 * @throws OsmosisError with code `invalid_entrypoint` when it exports several of a kind
 */
export function discoverGrader(
  exports: Readonly<Record<string, unknown>>,
  file = 'the module',
  name?: string,
): Omit<Entrypoint, 'workflow'> {
  const found = findAll(exports)
  if (name === undefined) return partsBesides(found, file)
  const graders = findAll({ [name]: exports[name] }).graders
  return partsBesides({ ...found, graders }, file)
}

function partsBesides(found: FoundParts, file: string): Omit<Entrypoint, 'workflow'> {
  return {
    workflowConfig: atMostOne(found.workflowConfigs, 'workflow configs', file)[0]?.value,
    grader: atMostOne(found.graders, 'graders', file)[0]?.value,
    graderConfig: atMostOne(found.graderConfigs, 'grader configs', file)[0]?.value,
  }
}

interface Found<T> {
  name: string
  value: T
}

interface FoundParts {
  workflows: Found<AgentWorkflowClass>[]
  graders: Found<GraderClass | GroupGraderClass>[]
  workflowConfigs: Found<WorkflowConfig>[]
  graderConfigs: Found<GraderConfig>[]
}

function findAll(exports: Readonly<Record<string, unknown>>): FoundParts {
  const found: FoundParts = { workflows: [], graders: [], workflowConfigs: [], graderConfigs: [] }
  const seen = new Set<unknown>()
  for (const [name, value] of Object.entries(exports)) {
    if (seen.has(value)) continue
    seen.add(value)
    if (isAgentWorkflowClass(value)) found.workflows.push({ name, value })
    else if (isGraderClass(value) || isGroupGraderClass(value)) found.graders.push({ name, value })
    const kind = configKind(value)
    if (kind === 'workflow') found.workflowConfigs.push({ name, value: value as WorkflowConfig })
    if (kind === 'grader') found.graderConfigs.push({ name, value: value as GraderConfig })
  }
  return found
}

function atMostOne<T>(found: Found<T>[], what: string, file: string): Found<T>[] {
  if (found.length <= 1) return found
  const names = found.map(({ name }) => name).toSorted()
  throw new OsmosisError(
    'invalid_entrypoint',
    `Several ${what} are exported from ${file}: ${names.join(', ')}. Export only the one to run; move the others to files of their own.`,
  )
}
