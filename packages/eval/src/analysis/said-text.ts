/**
 * Whether a text was said in a rollout. Names of fields do not count.
 *
 * @param samples - trajectories by sample id
 * @param wanted - in lower case
 */
export function isSaid(samples: unknown, wanted: string): boolean {
  return Object.values(samples ?? {}).some((sample) => isInField(sample, wanted))
}

/** Fields of a trajectory that nobody said. */
const unsaid = new Set([
  'agent',
  'final_metrics',
  'llm_call_count',
  'media_type',
  'metrics',
  'model_name',
  'schema_version',
  'session_id',
  'source',
  'source_call_id',
  'step_id',
  'timestamp',
  'tool_call_id',
  'trajectory_id',
  'type',
])

function isInField(value: unknown, wanted: string): boolean {
  if (typeof value === 'string') return value.toLowerCase().includes(wanted)
  if (typeof value !== 'object' || value === null) return String(value).includes(wanted)
  return Object.entries(value).some(([key, field]) =>
    key === 'arguments' ? isArgued(field, wanted) : !unsaid.has(key) && isInField(field, wanted),
  )
}

/** What a tool was called with: there every name is the policy's own. */
function isArgued(value: unknown, wanted: string): boolean {
  if (typeof value !== 'object' || value === null) return isInField(value, wanted)
  return Object.entries(value).some(
    ([key, field]) => key.toLowerCase().includes(wanted) || isArgued(field, wanted),
  )
}
