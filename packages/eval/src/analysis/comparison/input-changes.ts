import type { RunManifest } from '../records/run-manifest.ts'

/** An input in which two runs differ, as text; null where a run does not have it. */
export interface InputChange {
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

/** What two runs were made with, besides their models, where it differs: endpoint, dataset, code, config, time limits and threshold. */
export function inputChanges(before: RunManifest, after: RunManifest): InputChange[] {
  const [one, other] = [inputsOf(before), inputsOf(after)]
  const names = new Set([...one.keys(), ...other.keys()])
  return [...names].flatMap((name) => {
    const change = { name, before: one.get(name) ?? null, after: other.get(name) ?? null }
    return change.before === change.after ? [] : [change]
  })
}

function inputsOf({ inputs, pass_threshold, provenance }: RunManifest): Map<string, string> {
  const { model, dataset, code, workflow = {}, env, timeouts } = inputs
  const { commit, dirty } = provenance.git ?? {}
  const found: Record<string, unknown> = {
    endpoint: model.base_url,
    ...prefixed('', model.params),
    dataset: dataset.name,
    'contents of the dataset': dataset.sha256.slice(0, 8),
    rollout: code.rollout,
    code: code.sha256.slice(0, 8),
    commit:
      commit === undefined ? null : `${commit.slice(0, 8)}${dirty === true ? ' and changes' : ''}`,
    ...prefixed('config: ', workflow),
    ...prefixed('$', env),
    'time limit of the workflow': timeouts.agent_seconds,
    'time limit of the grader': timeouts.grader_seconds,
    'maximum turns': timeouts.max_turns,
    'pass threshold': pass_threshold,
    sdk: provenance.sdk_version,
    'Node.js': provenance.node_version,
  }
  return new Map(
    Object.entries(found).flatMap(([name, value]) =>
      value === null || value === undefined
        ? []
        : [[name, typeof value === 'string' ? value : JSON.stringify(value)]],
    ),
  )
}

function prefixed(prefix: string, fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]))
}
