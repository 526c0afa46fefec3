import type { CheckedSections } from './config-sections.ts'

/** Problems that no single value has: what cannot be combined, and what must not be repeated. */
export function ruleProblems(sections: CheckedSections): string[] {
  return [
    ...experimentProblems(sections.experiment),
    ...secretProblems(sections),
    ...policyProblems(sections.policy),
  ]
}

function experimentProblems(experiment: CheckedSections['experiment']): string[] {
  if (experiment?.branch === undefined || experiment.commit_sha === undefined) return []
  return ['experiment.commit_sha: cannot be combined with branch; keep one of them']
}

function secretProblems({ env = {}, secrets }: CheckedSections): string[] {
  const required = secrets?.required ?? []
  return required.flatMap((name, index) => {
    const place = `secrets.required.${index}`
    if (required.indexOf(name) !== index) return [`${place}: ${name} is listed twice`]
    if (!Object.hasOwn(env, name)) return []
    return [`${place}: ${name} is set in [env] too; keep one of them`]
  })
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
