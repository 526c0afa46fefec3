import type { RunManifest } from '../records/run-manifest.ts'
import type { RunDocument } from '../table/run-document.ts'

/** An input in which two runs differ, as text; null where a run does not have it. */
export interface InputChange {
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

/** What two runs were made with, where it differs: dataset, code, fields of the config, limits and versions. */
export function inputChanges(before: RunDocument, after: RunDocument): InputChange[] {
  const names = new Set([...Object.keys(before.inputs), ...Object.keys(after.inputs)])
  return [...names].flatMap((name) => {
    const [one = null, other = null] = [before.inputs[name], after.inputs[name]]
    return one === other ? [] : [{ name, before: one, after: other }]
  })
}

/** What a run was made with, besides its models, by names for readers. */
export function describeInputs(manifest: RunManifest): Readonly<Record<string, string>> {
  const { inputs, pass_threshold: threshold, provenance } = manifest
  const { model, dataset, code, workflow = {}, env, timeouts } = inputs
  const { commit, dirty } = provenance.git ?? {}
  const found: Record<string, unknown> = {
    endpoint: model.base_url,
    ...prefixed('', model.params),
    dataset: dataset.name,
    'contents of the dataset': dataset.sha256.slice(0, 8),
    rollout: code.rollout,
    code: code.sha256.slice(0, 8),
    commit: commit && `${commit.slice(0, 8)}${dirty === true ? ' and changes' : ''}`,
    ...prefixed('config: ', workflow),
    ...prefixed('$', env),
    'time limit of the workflow': timeouts.agent_seconds,
    'time limit of the grader': timeouts.grader_seconds,
    'maximum turns': timeouts.max_turns,
    'pass threshold': threshold,
    'version of Osmosis': provenance.sdk_version,
    'Node.js': provenance.node_version,
  }
  const known = Object.entries(found).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(
    known.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}

function prefixed(prefix: string, fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]))
}
