import { isPathSegment } from '@osmosis/core'

import { type CheckedSections } from './config-sections.ts'

/** Problems that no single value has: what excludes what, and how names must look. */
export function ruleProblems(sections: CheckedSections): string[] {
  return [
    ...experimentProblems(sections.experiment),
    ...variableProblems(sections),
    ...policyProblems(sections.policy),
  ]
}

function experimentProblems(experiment: CheckedSections['experiment']): string[] {
  if (!experiment) return []
  const problems: string[] = []
  if (!isPathSegment(experiment.rollout)) {
    problems.push(
      `experiment.rollout: must be the name of a folder in rollouts/, got "${experiment.rollout}"`,
    )
  }
  if (experiment.branch !== undefined && experiment.commit_sha !== undefined) {
    problems.push('experiment.commit_sha: cannot be combined with branch; keep one of them')
  }
  return problems
}

function variableProblems({ env = {}, secrets }: CheckedSections): string[] {
  const problems: string[] = []
  for (const name of Object.keys(env)) {
    if (!/^[A-Z_][A-Z0-9_]*$/.test(name)) {
      problems.push(`env.${name}: must be named in capitals, digits and underscores`)
    } else if (name.startsWith('_OSMOSIS_')) {
      problems.push(`env.${name}: names that start with _OSMOSIS_ are reserved`)
    }
  }
  for (const [index, name] of (secrets?.required ?? []).entries()) {
    const place = `secrets.required.${index}`
    if (!/^[A-Z][A-Z0-9_]*$/.test(name)) {
      problems.push(`${place}: must be a name in capitals, digits and underscores, got "${name}"`)
    } else if (secrets?.required.indexOf(name) !== index) {
      problems.push(`${place}: ${name} is listed twice`)
    } else if (Object.hasOwn(env, name)) {
      problems.push(`${place}: ${name} is set in [env] too; keep one of them`)
    }
  }
  return problems
}

function policyProblems(policy: CheckedSections['policy']): string[] {
  if (!policy) return []
  const { module, base_url: baseUrl } = policy
  if (module === undefined && baseUrl === undefined) {
    return ['policy: needs module (a file that answers) or base_url (an endpoint that does)']
  }
  if (module === undefined) return []
  return (['base_url', 'model', 'api_key_env'] as const)
    .filter((key) => policy[key] !== undefined)
    .map((key) => `policy.${key}: cannot be combined with module; keep one of them`)
}
