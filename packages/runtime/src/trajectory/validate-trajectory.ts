import { trajectorySchema, type Trajectory, type TrajectoryStep } from './atif.ts'

/**
 * Checks a document against the rules of its format: its shape, without any key beyond it, and
 * what its parts owe one another.
 *
 * @returns what is wrong, one `path: sentence` each, such as
 * `steps[1].observation.results[0].source_call_id: …`; none when the document is valid
 */
export function validateTrajectory(document: unknown): string[] {
  const { success, data, error } = trajectorySchema.safeParse(document)
  if (success) return problemsOf(data, '')
  return error.issues.map(({ path, message }) => `${pathText(path) || 'document'}: ${message}`)
}

function problemsOf(trajectory: Trajectory, at: string): string[] {
  const problems = trajectory.steps.flatMap((step, index) => {
    const path = `${at}steps[${index}]`
    const wrongId =
      step.step_id === index + 1
        ? []
        : [`${path}.step_id: must be ${index + 1}, steps are numbered from 1 without gaps`]
    return [
      ...wrongId,
      ...agentOnly(step, path),
      ...withoutCall(step, path),
      ...results(step, path),
    ]
  })
  const embedded = trajectory.subagent_trajectories ?? []
  const seen = new Set<string>()
  for (const [index, { trajectory_id: id }] of embedded.entries()) {
    const path = `${at}subagent_trajectories[${index}].trajectory_id`
    if (typeof id !== 'string') problems.push(`${path}: is required in an embedded trajectory`)
    else if (seen.has(id)) problems.push(`${path}: is used by two embedded trajectories`)
    else seen.add(id)
  }
  const below = embedded.flatMap((inner, index) =>
    problemsOf(inner, `${at}subagent_trajectories[${index}].`),
  )
  return [...problems, ...below]
}

const agentKeys = [
  'model_name',
  'reasoning_effort',
  'reasoning_content',
  'tool_calls',
  'metrics',
] as const

function agentOnly(step: TrajectoryStep, path: string): string[] {
  if (step.source === 'agent') return []
  return agentKeys
    .filter((key) => isGiven(step[key]))
    .map(
      (key) => `${path}.${key}: belongs to steps of the agent, this one is of the ${step.source}`,
    )
}

function withoutCall(step: TrajectoryStep, path: string): string[] {
  if (step.llm_call_count !== 0) return []
  return (['metrics', 'reasoning_content'] as const)
    .filter((key) => isGiven(step[key]))
    .map((key) => `${path}.${key}: cannot be there when llm_call_count is 0`)
}

function results({ tool_calls: calls, observation }: TrajectoryStep, path: string): string[] {
  const called = new Set(calls?.map(({ tool_call_id: id }) => id))
  return (observation?.results ?? []).flatMap((result, index) => {
    const at = `${path}.observation.results[${index}]`
    const { source_call_id: id, subagent_trajectory_ref: references } = result
    const unknown =
      isGiven(id) && !called.has(id)
        ? [`${at}.source_call_id: ${JSON.stringify(id)} is no tool call of this step`]
        : []
    const empty = (references ?? []).flatMap((reference, place) =>
      isGiven(reference.trajectory_id) || isGiven(reference.trajectory_path)
        ? []
        : [`${at}.subagent_trajectory_ref[${place}]: needs a trajectory_id or a trajectory_path`],
    )
    return [...unknown, ...empty]
  })
}

function isGiven<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`))
    .join('')
    .replace(/^\./, '')
}
